#include "os/death_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/format.hpp"
#include "os/process_stat.hpp"
#include "os/system_error.hpp"

namespace tutti::os {
DeathWatch DeathWatch::of(pid_t process) noexcept {
  auto pidfd = open_pidfd(process);
  return {process, pidfd ? std::move(*pidfd) : Fd()};
}

bool DeathWatch::ended() const noexcept {
  if (process_ <= 0) return false;
  if (pidfd_.valid()) {
    pollfd entry{pidfd_.get(), POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
  }
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0)
    return info.si_pid != 0;
  if (kill(process_, 0) != 0 && errno == ESRCH) return true;
  const auto stat = process_stat(process_);
  return stat && stat->ended();
}

Result<bool> DeathWatch::wait(Deadline deadline) const {
  if (pidfd_.valid()) return wait_ready(pidfd_.get(), POLLIN, deadline);
  while (!ended()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    const auto pause = std::min<Deadline::duration>(deadline - now, kAskAgain);
    poll(nullptr, 0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(pause).count()));
  }
  return true;
}

Result<Fd> open_pidfd(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return system_error(base::format("cannot watch process {}", pid), errno);
  return Fd(static_cast<int>(fd));
}

}  // namespace tutti::os
