#include "worker_signals.hpp"

#include <csignal>
#include <vector>

#include "base/format.hpp"
#include "rank_errors.hpp"
#include "rank_process.hpp"
#include "report.hpp"

namespace tutti::launcher {

void WorkerSignals::stop_ranks(int signal) {
  // A failure before has given them less.
  if (!kill_at_) {
    asked_by_ = signal;
    ask_all_at_ = Clock::now() + options_.grace_on_signal;
  }
  send_to_ranks(signal);
  // A stopped process would see the signal only when it is continued.
  send_to_groups(SIGCONT);
}

void WorkerSignals::send_to_ranks(int signal) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = *workers_[i];
    if (worker.end) continue;
    bool told = false;
    for (const pid_t rank : find_ranks(worker.process.pid(), records_.joined(static_cast<int>(i))))
      told |= kill(rank, signal) == 0;
    if (told) continue;
    output_.say(worker.process.kill(signal));
  }
}

void WorkerSignals::stop(int signal) {
  if (asked_by_ == 0) asked_by_ = signal;
  patience_ = options_.grace;
  const auto kill_at = Clock::now() + options_.grace;
  if (!kill_at_ || kill_at < *kill_at_) kill_at_ = kill_at;
  send_to_groups(signal);
  // A stopped process would see the signal only when it is continued.
  send_to_groups(SIGCONT);
}

void WorkerSignals::tell_late() {
  std::vector<int> ranks;
  for (const auto& worker : workers_)
    if (!worker->end) ranks.push_back(worker->rank);
  if (ranks.empty()) return;
  const bool after_signal = patience_ > options_.grace;
  output_.say(
      base::format("tuttirun: {} {} not ended within {} s after {}, and {} killed; {} more time",
                   name_ranks(ranks), ranks.size() == 1 ? "has" : "have",
                   std::chrono::duration<double>(patience_).count(), describe({0, asked_by_}),
                   ranks.size() == 1 ? "is" : "are",
                   after_signal ? "--grace-on-signal and --grace allow" : "--grace allows"));
}

void WorkerSignals::kill_all() {
  killed_ = true;
  ask_all_at_.reset();
  kill_at_.reset();
  send_to_groups(SIGKILL);
}

void WorkerSignals::send_to_groups(int signal) {
  // Ended leaders are still zombies, so their group's number is theirs: what they left behind is
  // reached too, and nobody else.
  for (const auto& worker : workers_) output_.say(worker->process.kill_group(signal));
}

void WorkerSignals::act() {
  if (ask_all_at_ && Clock::now() >= *ask_all_at_) {
    ask_all_at_.reset();
    stop(asked_by_);
    patience_ += options_.grace_on_signal;
  }
  if (kill_at_ && Clock::now() >= *kill_at_) {
    tell_late();
    kill_all();
  }
}

void WorkerSignals::begin_again() {
  asked_by_ = 0;
  ask_all_at_.reset();
  kill_at_.reset();
  killed_ = false;
}

}  // namespace tutti::launcher
