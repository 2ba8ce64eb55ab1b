#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "os/system_error.hpp"

namespace tutti::os {

struct Pipe {
  Fd read;
  Fd write;
};

/// A pipe that is closed on exec. `what` begins the error.
[[nodiscard]] inline Result<Pipe> make_pipe(std::string_view what) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(what, errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

}  // namespace tutti::os
