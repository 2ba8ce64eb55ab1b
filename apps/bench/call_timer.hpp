#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "apps/bench/job.hpp"
#include "apps/bench/operations.hpp"

namespace tutti::bench {

enum class Mode {
  loop,  ///< calls back to back: time of all of them / their number, slowest rank
  sync,  ///< the library's barrier before each call: slowest rank of each call, median
};

struct Measured {
  double seconds = 0;  ///< per call, as the mode says
  double total = 0;    ///< of the command
  /// The time of a call of a rank on average: of the fastest rank, of all, of the slowest.
  double fastest = 0;
  double mean = 0;
  double slowest = 0;
  /// Seconds of calls that were timed by themselves, the mean over the ranks. sync: all calls;
  /// loop: some, so that reading the clock takes no part of the time.
  std::vector<double> calls = {};
  /// Of all ranks: how often one gave its core up, and lost it.
  double voluntary_switches = 0;
  double involuntary_switches = 0;
};

/// Has a job do the calls of one operation and size, and takes their time.
class CallTimer {
 public:
  /// `timeout`: for a job to answer beyond what its calls should take. `lead`: the ranks begin each
  /// call of mode sync together, so long after rank 0 has left the barrier; 0: as they leave it.
  CallTimer(Operation operation, std::uint64_t bytes, Mode mode, std::chrono::seconds timeout,
            std::chrono::microseconds lead = {});

  /// Throws JobError if a result is wrong.
  void verify(Job& job) const;

  enum class Alone { none, some };  ///< the calls of a loop that are timed by themselves, too
  /// `estimate`: seconds that a call should take, as far as is known.
  Measured time(Job& job, std::uint64_t warmup, std::uint64_t iterations, double estimate,
                Alone alone = Alone::none) const;

  struct Calibration {
    double seconds = 0;  ///< per call
    std::uint64_t iterations = 0;
  };
  /// Finds how many calls, at least `least`, fill the budget.
  Calibration calibrate(Job& job, std::chrono::duration<double> budget, std::uint64_t least) const;

 private:
  [[nodiscard]] Command command(Task task) const;
  [[nodiscard]] std::chrono::nanoseconds patience(const Command& command, double estimate) const;

  Operation operation_;
  std::uint64_t bytes_;
  Mode mode_;
  std::chrono::seconds timeout_;
  std::chrono::microseconds lead_;
};

}  // namespace tutti::bench
