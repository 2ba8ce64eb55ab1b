#include "os/death_pipe.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/forks.hpp"
#include "os/death_watch.hpp"
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

Result<DeathSet> DeathSet::of(std::span<const DeathPipe* const> pipes, Deadline deadline) {
  DeathSet set;
  set.ends = Fd(epoll_create1(EPOLL_CLOEXEC));
  std::array<int, 2> ends{};
  if (!set.ends.valid() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error("cannot watch the ranks of this host", errno);
  const Fd fills(ends[0]);
  set.kept = Fd(ends[1]);
  std::vector<int> fds;
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    for (const Fd* const fd : {&pipes[i]->process, &pipes[i]->pipe}) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = i;
      if (epoll_ctl(set.ends.get(), EPOLL_CTL_ADD, fd->get(), &event) != 0)
        return system_error("cannot watch a rank of this host", errno);
      fds.push_back(fd->get());
    }
  }
  constexpr std::byte kNothing{};
  for (std::span<const int> rest = fds; !rest.empty();) {
    const std::span<const int> some = rest.first(std::min(rest.size(), kMaxFdsPerMessage));
    if (Outcome s = send_fds(fills.get(), some, {&kNothing, 1}, deadline); !s.ok()) return s;
    rest = rest.subspan(some.size());
  }
  return set;
}

void DeathSet::add_ended(std::vector<int>& indexes) const noexcept {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(ends.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i)
    indexes.push_back(static_cast<int>(events[static_cast<std::size_t>(i)].data.u64));
}

}  // namespace tutti::os
