#include "os/lifeline.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "os/process.hpp"
#include "os/system_error.hpp"

namespace tutti::os {
namespace {

/// The pipe of this process, made when it is needed for the first time and never closed.
class Line {
 public:
  static Line& of_this_process() {
    static auto* const line = new Line;  // never destroyed: the kernel closes it, at the very end
    return *line;
  }

  Result<Fd> watch() {
    const std::lock_guard lock(mutex_);
    if (!held_.valid()) {
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_CLOEXEC) != 0)
        return system_error("cannot make what tells of our end", errno);
      watched_ = Fd(ends[0]);
      held_ = Fd(ends[1]);
    }
    Fd copy(fcntl(watched_.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return system_error("cannot copy what tells of our end", errno);
    return copy;
  }

 private:
  Line() {
    ::pthread_atfork([] { of_this_process().mutex_.lock(); },
                     [] { of_this_process().mutex_.unlock(); },
                     [] {
                       of_this_process().held_.reset();  // the child's end is not ours
                       of_this_process().watched_.reset();
                       of_this_process().mutex_.unlock();
                     });
  }

  std::mutex mutex_;
  Fd watched_;
  Fd held_;
};

}  // namespace

Result<Fd> open_lifeline() {
  if (auto process = open_pidfd(::getpid())) return process;
  return Line::of_this_process().watch();
}

}  // namespace tutti::os
