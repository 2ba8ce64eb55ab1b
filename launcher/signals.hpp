#pragma once

#include <csignal>

namespace tutti::launcher {

/// The signals that we pass on to the workers. Not SIGHUP where it was ignored when we were
/// started: nohup says so of what shall outlive its terminal. (A signal that is blocked is not
/// ignored.)
[[nodiscard]] inline sigset_t watched_signals() noexcept {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) sigaddset(&watched, signal);
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) != 0 || hang_up.sa_handler != SIG_IGN)
    sigaddset(&watched, SIGHUP);
  return watched;
}

}  // namespace tutti::launcher
