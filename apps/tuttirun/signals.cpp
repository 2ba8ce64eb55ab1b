#include "signals.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"
#include "base/split.hpp"
#include "os/process.hpp"

namespace tutti::launcher {
namespace {

constexpr std::array kEnd = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
constexpr std::array kHandedOn = {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
constexpr std::array kNeverIgnored = {SIGINT, SIGTERM, SIGQUIT, SIGCHLD};
// They cannot be caught, tell of an error of our own, or are part of our own work.
constexpr std::array kNotToChoose = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP,
                                     SIGABRT, SIGSYS,  SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE};

template <class List>
bool holds(const List& list, int signal) noexcept {
  return std::ranges::find(list, signal) != std::ranges::end(list);
}

/// 0: there is none.
int signal_of(std::string_view name) {
  if (!name.starts_with("SIG")) return 0;
  for (int signal = 1; signal < NSIG; ++signal)
    if (name == os::signal_name(signal)) return signal;
  return 0;
}

bool is_ignored(int signal) noexcept {
  struct sigaction before {};
  return sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}

}  // namespace

Result<std::vector<int>> parse_signals(const std::string& names) {
  std::vector<int> signals;
  if (names.empty()) return signals;
  for (const std::string_view part : base::split(names, ',')) {
    const std::string_view name = base::without_blanks(part);
    const int signal = signal_of(name);
    if (signal == 0 || holds(kNotToChoose, signal)) {
      return Outcome(
          Errc::invalid_argument,
          base::format("--signals-to-handle: \"{}\" is {}; give names such as "
                       "SIGTERM,SIGUSR1",
                       base::shown(name, 64),
                       signal == 0 ? "the name of no signal" : "a signal that cannot end the job"));
    }
    signals.push_back(signal);
  }
  return signals;
}

bool ends_job(int signal, std::span<const int> asked_for) noexcept {
  return holds(kEnd, signal) || holds(asked_for, signal);
}

sigset_t watched_signals(std::span<const int> asked_for) noexcept {
  sigset_t watched;
  sigemptyset(&watched);
  const auto add = [&](int signal) {
    if (holds(kNeverIgnored, signal) || !is_ignored(signal)) sigaddset(&watched, signal);
  };
  for (const int signal : kNeverIgnored) add(signal);
  for (const int signal : kEnd) add(signal);
  for (const int signal : kHandedOn) add(signal);
  add(SIGTSTP);
  for (const int signal : asked_for) add(signal);
  return watched;
}

sigset_t blocked_signals(std::span<const int> asked_for) noexcept {
  sigset_t blocked = watched_signals(asked_for);
  for (const int signal : {SIGTTIN, SIGTTOU}) sigaddset(&blocked, signal);
  return blocked;
}

}  // namespace tutti::launcher
