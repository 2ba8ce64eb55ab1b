#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <initializer_list>

#include "job.hpp"
#include "terminal_input.hpp"

// A job and the terminal it was started from.
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

void Job::prepare_terminal() {
  start_.on_terminal = isatty(STDIN_FILENO) != 0;
  if (!start_.on_terminal || options_.stdin_rank == Options::kNoRank) return;
  start_.passes_terminal = options_.world_size() == 1 && options_.redirect.empty() &&
                           options_.tee.empty() && options_.shown.empty() &&
                           !options_.tag.value_or(false) && in_foreground(STDIN_FILENO);
  if (!start_.passes_terminal)
    typed_ = std::make_unique<TerminalInput>(*events_,
                                             [this](std::string_view typed) { note_typed(typed); });
}

void Job::prepare_input() {
  const int first = start_.on_terminal ? 0 : options_.node_rank * options_.nproc_per_node;
  start_.stdin_rank = options_.stdin_rank.value_or(first);
  start_.typed = typed_.get();
  start_.in_foreground = in_foreground(STDIN_FILENO);
}

void Job::suspend() {
  // The terminal stops only our own process group.
  send_to_groups(SIGSTOP);
  take_terminal_back();
  stop_our_group();
  if (screen_) screen_->leave();
  give_terminal();
  send_to_groups(SIGCONT);
}

void Job::note_stops() {
  for (const auto& worker : workers_) {
    if (worker->end) continue;
    // Another signal comes from somebody who wants just that.
    const int signal = worker->process.take_stop();
    if (is_one_of(signal, {SIGTTIN, SIGTTOU})) {
      note_use_of_terminal(*worker);
    } else if (signal == SIGTSTP && start_.passes_terminal) {
      suspend();
    }
  }
}

void Job::note_use_of_terminal(Worker& worker) {
  if (!start_.passes_terminal) {
    // It would be stopped again at once, and the others would wait for it.
    say(
        fmt::format("tuttirun: rank {} used /dev/tty (a password prompt?), so the terminal stopped "
                    "it, and it is ended: with several processes, or other options on input and "
                    "output, a rank reads standard input (--stdin)",
                    worker.rank));
    if (Outcome status = worker.process.kill_group(SIGKILL); !status)
      say(fmt::format("tuttirun: {}", status.message()));
  } else if (give_terminal()) {
    // The shell's `fg` put us into the foreground, and told nobody.
    send_to_groups(SIGCONT);
  } else {
    suspend();
  }
}

bool Job::give_terminal() const {
  return start_.passes_terminal && !workers_.empty() && in_foreground(STDIN_FILENO) &&
         tcsetpgrp(STDIN_FILENO, workers_.front()->process.pid()) == 0;
}

bool Job::take_terminal_back() const {
  return start_.passes_terminal && !workers_.empty() &&
         tcgetpgrp(STDIN_FILENO) == workers_.front()->process.pid() &&
         tcsetpgrp(STDIN_FILENO, getpgrp()) == 0;
}

void Job::interrupt_from_terminal(int signal) {
  kill(0, signal);
  // It has reached us, too: that one would count as the second.
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, signal);
  constexpr timespec kNow{};
  sigtimedwait(&own, nullptr, &kNow);
  interrupt(signal);
}

std::optional<Job::Clock::time_point> Job::next_deadline() const {
  auto next = kill_at_;
  const auto add = [&next](std::optional<Clock::time_point> due) {
    if (due) next = next ? std::min(*next, *due) : *due;
  };
  add(ask_all_at_);
  if (typed_) add(typed_->due());
  if (screen_) add(screen_->due());
  for (const auto& worker : workers_) add(worker->burst.over(worker->error.unfinished()));
  return next;
}

}  // namespace tutti::launcher
