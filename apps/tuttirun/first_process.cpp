#include "first_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace tutti::launcher {
namespace {

/// The text that a shell prints of its end.
int exit_code_of(const siginfo_t& end) noexcept {
  return end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status;
}

/// Takes the ends of all children that have ended. True: `worker` was one of them, or none is left.
bool collect(pid_t worker, int& code) noexcept {
  while (true) {
    siginfo_t end{};
    if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG) != 0) return errno == ECHILD;
    if (end.si_pid == 0) return false;
    if (end.si_pid == worker) {
      code = exit_code_of(end);
      return true;
    }
  }
}

}  // namespace

std::optional<int> collect_if_first() {
  if (getpid() != 1) return std::nullopt;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  std::fflush(nullptr);
  const pid_t worker = fork();
  if (worker <= 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    // Without a child the work is done here, and orphans stay as they are.
    return std::nullopt;
  }
  int code = EXIT_FAILURE;
  while (!collect(worker, code)) {
    siginfo_t signal{};
    if (sigwaitinfo(&all, &signal) < 0) continue;
    // Signals of the terminal, and its own, reach the worker as well: it is of the same group.
    if (signal.si_signo != SIGCHLD && signal.si_code != SI_KERNEL && signal.si_pid != worker)
      (void)kill(worker, signal.si_signo);
  }
  return code;
}

}  // namespace tutti::launcher
