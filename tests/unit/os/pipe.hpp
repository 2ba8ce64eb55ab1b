#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "os/fd.hpp"

namespace tutti::test {

/// Both ends of a pipe, closed where another program begins.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read = os::Fd(ends[0]);
    write = os::Fd(ends[1]);
  }
  os::Fd read;
  os::Fd write;
};

}  // namespace tutti::test
