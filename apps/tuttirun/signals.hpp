#pragma once

#include <csignal>
#include <span>
#include <vector>

#include <tutti/error.hpp>

namespace tutti::launcher {

/// "SIGTERM,SIGUSR1", as torchrun takes it. invalid_argument for a name of no signal, and for one
/// that cannot end the job: it cannot be caught, or tuttirun needs it.
[[nodiscard]] Result<std::vector<int>> parse_signals(const std::string& names);

/// True if the signal ends the job: SIGINT, SIGTERM, SIGHUP, SIGQUIT and what was asked for.
[[nodiscard]] bool ends_job(int signal, std::span<const int> asked_for) noexcept;

/// The signals that end the job, those that are handed on to the ranks (SIGUSR1, SIGUSR2, SIGWINCH,
/// SIGCONT), the one that stops the job (SIGTSTP), and SIGCHLD. Not one that was ignored when we
/// were started, as nohup has SIGHUP ignored; but SIGINT, SIGTERM and SIGQUIT always. (A signal
/// that is blocked is not ignored.)
[[nodiscard]] sigset_t watched_signals(std::span<const int> asked_for) noexcept;

/// Those, and the two that would stop us when we read or write a terminal from the background:
/// reading fails instead, and writing does not.
[[nodiscard]] sigset_t blocked_signals(std::span<const int> asked_for) noexcept;

}  // namespace tutti::launcher
