#include "bench/call_timer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "bench/statistics.hpp"

namespace tutti::bench {

namespace {

constexpr std::uint64_t kMostIterations = 1'000'000;
constexpr std::uint64_t kMostSamples = 5000;  ///< of a sync command

}  // namespace

CallTimer::CallTimer(Operation operation, std::uint64_t bytes, Mode mode,
                     std::chrono::seconds timeout)
    : operation_(operation), bytes_(bytes), mode_(mode), timeout_(timeout) {}

Command CallTimer::command(Task task) const {
  Command command;
  command.task = task;
  command.operation = number_of(operation_);
  command.bytes = bytes_;
  return command;
}

void CallTimer::verify(Job& job) const {
  const auto answers = job.ask(command(Task::verify), timeout_);
  if (operation_ != Operation::barrier) return;
  // Samples: entered, left, entered, left ... by one clock.
  for (std::size_t call = 0; call < answers.size(); ++call) {
    double last_entered = 0;
    double first_left = INFINITY;
    for (const auto& [answer, samples] : answers) {
      last_entered = std::max(last_entered, samples.at(2 * call));
      first_left = std::min(first_left, samples.at(2 * call + 1));
    }
    if (first_left < last_entered) {
      throw JobError("a rank left the barrier before the last had entered it");
    }
  }
}

Measured CallTimer::time(Job& job, std::uint64_t warmup, std::uint64_t iterations,
                         double estimate) const {
  Command what = command(mode_ == Mode::loop ? Task::loop : Task::sync);
  what.warmup = warmup;
  what.iterations = iterations;
  const double expected = estimate * static_cast<double>(warmup + iterations) * 4;
  const auto answers = job.ask(what, timeout_ + std::chrono::seconds(static_cast<int>(expected)));
  Measured measured;
  for (const auto& rank : answers) measured.switches += rank.answer.involuntary_switches;
  if (mode_ == Mode::loop) {
    double slowest = 0;
    double rewriting = 0;
    for (const auto& rank : answers) {
      slowest = std::max(slowest, rank.answer.seconds);
      rewriting = std::max(rewriting, rank.answer.rewrite_seconds);
    }
    measured.total = slowest;
    measured.seconds = (slowest - rewriting) / static_cast<double>(iterations);
    return measured;
  }
  std::vector<double> calls(iterations);
  for (const auto& rank : answers) {
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i] = std::max(calls[i], rank.samples[i]);
  }
  for (const double call : calls) measured.total += call;
  measured.seconds = median(std::move(calls));
  return measured;
}

CallTimer::Calibration CallTimer::calibrate(Job& job, std::chrono::duration<double> budget,
                                            std::uint64_t least) const {
  const std::uint64_t most = mode_ == Mode::sync ? kMostSamples : kMostIterations;
  std::uint64_t iterations = 1;
  Measured measured = time(job, 1, iterations, 0);
  // More and more calls, until a tenth of the budget is filled.
  while (measured.total < budget.count() / 10 && iterations < most) {
    iterations = std::min(most, iterations * 4);
    measured = time(job, 1, iterations, 0);
  }
  const double each = std::max(measured.total / static_cast<double>(iterations), 1e-9);
  return {measured.seconds,
          std::clamp(static_cast<std::uint64_t>(budget.count() / each), least, most)};
}

}  // namespace tutti::bench
