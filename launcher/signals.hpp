#pragma once

#include <csignal>

namespace tutti::launcher {

/// The signals that end the job, that stop it (SIGTSTP), and that tell of workers that stop
/// (SIGCHLD). Not SIGHUP or SIGTSTP where it was ignored when we were started: nohup says so of
/// what shall outlive its terminal. (A signal that is blocked is not ignored.)
[[nodiscard]] inline sigset_t watched_signals() noexcept {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGCHLD}) sigaddset(&watched, signal);
  for (const int signal : {SIGHUP, SIGTSTP}) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_IGN)
      sigaddset(&watched, signal);
  }
  return watched;
}

/// Those, and the two that would stop us when we read or write a terminal from the background:
/// reading fails instead, and writing does not.
[[nodiscard]] inline sigset_t blocked_signals() noexcept {
  sigset_t blocked = watched_signals();
  for (const int signal : {SIGTTIN, SIGTTOU}) sigaddset(&blocked, signal);
  return blocked;
}

}  // namespace tutti::launcher
