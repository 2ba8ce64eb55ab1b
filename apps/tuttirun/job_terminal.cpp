#include "job_terminal.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <initializer_list>

#include "base/format.hpp"

namespace tutti::launcher {
namespace {

bool is_one_of(int signal, std::initializer_list<int> signals) {
  return std::ranges::find(signals, signal) != signals.end();
}

/// Stops our process group as Ctrl-Z does, with the script or the `make` that waits for us, and
/// returns when it is continued: at once where no shell could continue it (an orphaned process
/// group, as in a container).
void stop_our_group() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  kill(0, SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace

JobTerminal::JobTerminal(const Options& options, Start& start, const Workers& workers,
                         os::EventLoop& events, WorkerOutput& output, WorkerSignals& signals)
    : options_(options), start_(start), workers_(workers), output_(output), signals_(signals) {
  start_.on_terminal = isatty(STDIN_FILENO) != 0;
  if (!start_.on_terminal || options_.stdin_rank == Options::kNoRank) return;
  start_.passes_terminal = options_.world_size() == 1 && options_.redirect.empty() &&
                           options_.tee.empty() && options_.shown.empty() &&
                           !options_.tag.value_or(false) && in_foreground(STDIN_FILENO);
  if (!start_.passes_terminal)
    typed_.emplace(events, [&output](std::string_view typed) { output.note_typed(typed); });
}

void JobTerminal::describe() {
  const int first = start_.on_terminal ? 0 : options_.node_rank * options_.nproc_per_node;
  start_.stdin_rank = options_.stdin_rank.value_or(first);
  start_.typed = typed_ ? &*typed_ : nullptr;
  start_.in_foreground = in_foreground(STDIN_FILENO);
}

void JobTerminal::suspend() {
  // The terminal stops only our own process group.
  signals_.send_to_groups(SIGSTOP);
  take_back();
  stop_our_group();
  output_.leave_screen();
  give();
  signals_.send_to_groups(SIGCONT);
}

void JobTerminal::note_stops() {
  for (const auto& worker : workers_) {
    if (worker->end) continue;
    // Another signal comes from somebody who wants just that.
    const int signal = worker->process.take_stop();
    if (is_one_of(signal, {SIGTTIN, SIGTTOU})) {
      note_use(*worker);
    } else if (signal == SIGTSTP && start_.passes_terminal) {
      suspend();
    }
  }
}

void JobTerminal::note_use(Worker& worker) {
  if (!start_.passes_terminal) {
    // It would be stopped again at once, and the others would wait for it.
    output_.say(base::format(
        "tuttirun: rank {} used /dev/tty (a password prompt?), so the terminal stopped "
        "it, and it is ended: with several processes, or other options on input and "
        "output, a rank reads standard input (--stdin)",
        worker.rank));
    output_.say(worker.process.kill_group(SIGKILL));
  } else if (give()) {
    // The shell's `fg` put us into the foreground, and told nobody.
    signals_.send_to_groups(SIGCONT);
  } else {
    suspend();
  }
}

bool JobTerminal::give() const {
  return start_.passes_terminal && !workers_.empty() && in_foreground(STDIN_FILENO) &&
         tcsetpgrp(STDIN_FILENO, workers_.front()->process.pid()) == 0;
}

bool JobTerminal::take_back() const {
  return start_.passes_terminal && !workers_.empty() &&
         tcgetpgrp(STDIN_FILENO) == workers_.front()->process.pid() &&
         tcsetpgrp(STDIN_FILENO, getpgrp()) == 0;
}

void pass_on_from_terminal(int signal) {
  kill(0, signal);
  // It has reached us, too: that one would count as the second.
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, signal);
  constexpr timespec kNow{};
  sigtimedwait(&own, nullptr, &kNow);
}

}  // namespace tutti::launcher
