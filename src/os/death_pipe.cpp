#include "os/death_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/forks.hpp"
#include "os/process.hpp"
#include "os/system_error.hpp"

namespace tutti::os {
namespace {

/// The pipe of this process, made when it is needed for the first time. Never closed by us: the
/// kernel does it, at the very end.
class WatchedEnds {
 public:
  Result<Fd> watch() {
    const std::lock_guard lock(mutex_);
    while (!held_.valid()) {
      const base::ForkWatch forks;
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_CLOEXEC) != 0)
        return system_error("cannot make the death pipe", errno);
      watched_ = Fd(ends[0]);
      held_ = Fd(ends[1]);
      keep_private(held_.get());
      if (forks.forked()) held_.reset();  // a child may hold that one, too
    }
    Fd copy(fcntl(watched_.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return system_error("cannot copy the death pipe", errno);
    return copy;
  }

 private:
  std::mutex mutex_;
  Fd watched_;
  Fd held_;
};

base::PerProcess<WatchedEnds> death_pipe;

}  // namespace

Result<DeathPipe> open_death_pipe() {
  Result<Fd> pipe = death_pipe.get().watch();
  if (!pipe) return pipe.status();
  Result<Fd> process = open_pidfd(::getpid());
  if (!process) process = death_pipe.get().watch();
  if (!process) return process.status();
  return DeathPipe{std::move(*process), std::move(*pipe)};
}

}  // namespace tutti::os
