#include "apps/bench/call_timer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/bench/statistics.hpp"

namespace tutti::bench {

namespace {

constexpr std::uint64_t kMostIterations = 1'000'000;
constexpr std::uint64_t kMostSamples = 5000;  ///< of a command
/// A call that is timed by itself takes two readings of the clock, about 50 ns. All of them take at
/// most a hundredth of a loop.
constexpr double kReadings = 50e-9;
constexpr double kMostReading = 0.01;

/// Each such call of a loop is timed by itself.
std::uint32_t sampling(std::uint64_t iterations, double estimate) {
  const double calls = std::max(static_cast<double>(iterations) / static_cast<double>(kMostSamples),
                                kReadings / (std::max(estimate, 1e-9) * kMostReading));
  return static_cast<std::uint32_t>(std::ceil(calls));
}

/// Of the seconds of calls on each rank: those of each call, the mean over the ranks.
std::vector<double> means_of(const std::vector<RankAnswer>& answers) {
  std::vector<double> calls(answers.front().samples.size());
  for (const auto& rank : answers) {
    if (rank.samples.size() != calls.size()) throw JobError("its ranks timed other calls");
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i] += rank.samples[i];
  }
  for (double& call : calls) call /= static_cast<double>(answers.size());
  return calls;
}

/// `each`: what a call takes each rank on average.
void spread(Measured& measured, const std::vector<double>& each) {
  measured.fastest = *std::min_element(each.begin(), each.end());
  measured.slowest = *std::max_element(each.begin(), each.end());
  measured.mean = mean(each);
}

}  // namespace

CallTimer::CallTimer(Operation operation, std::uint64_t bytes, Mode mode,
                     std::chrono::seconds timeout, std::chrono::microseconds lead)
    : operation_(operation), bytes_(bytes), mode_(mode), timeout_(timeout), lead_(lead) {}

Command CallTimer::command(Task task) const {
  Command command;
  command.task = task;
  command.operation = number_of(operation_);
  command.bytes = bytes_;
  return command;
}

void CallTimer::verify(Job& job) const {
  const auto answers = job.ask(command(Task::verify), timeout_);
  if (operation_ != Operation::barrier || !job.has_one_clock()) return;
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

std::chrono::nanoseconds CallTimer::patience(const Command& command, double estimate) const {
  const double expected = estimate * static_cast<double>(command.warmup + command.iterations) * 4;
  return timeout_ + std::chrono::seconds(static_cast<int>(expected));
}

Measured CallTimer::time(Job& job, std::uint64_t warmup, std::uint64_t iterations, double estimate,
                         Alone alone) const {
  Command what = command(mode_ == Mode::loop ? Task::loop : Task::sync);
  what.warmup = warmup;
  what.iterations = iterations;
  if (mode_ == Mode::sync) what.parameter = static_cast<std::uint32_t>(lead_.count());
  if (mode_ == Mode::loop && alone == Alone::some) what.parameter = sampling(iterations, estimate);
  const auto answers = job.ask(what, patience(what, estimate));
  Measured measured;
  std::vector<double> each;  // of a rank
  for (const auto& [answer, samples] : answers) {
    measured.voluntary_switches += static_cast<double>(answer.voluntary_switches);
    measured.involuntary_switches += static_cast<double>(answer.involuntary_switches);
  }
  measured.calls = means_of(answers);
  if (mode_ == Mode::loop) {
    double slowest = 0;
    double rewriting = 0;
    for (const auto& rank : answers) {
      slowest = std::max(slowest, rank.answer.seconds);
      rewriting = std::max(rewriting, rank.answer.rewrite_seconds);
    }
    measured.total = slowest;
    measured.seconds = (slowest - rewriting) / static_cast<double>(iterations);
    for (const auto& rank : answers) {
      each.push_back(std::max(0.0, rank.answer.seconds - rewriting) /
                     static_cast<double>(iterations));
    }
    spread(measured, each);
    return measured;
  }
  std::vector<double> calls(measured.calls.size());
  for (const auto& rank : answers) {
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i] = std::max(calls[i], rank.samples[i]);
    each.push_back(mean(rank.samples));
  }
  spread(measured, each);
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
