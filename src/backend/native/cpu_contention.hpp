#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/engine.hpp"

namespace tutti::native {

/// Detects that processes other than the ranks of this host compete for its CPUs. A rank that
/// yields then loses a whole time slice (some ms), even if its peers are done sooner; a rank that
/// sleeps gets the CPU back when it is woken. Without such processes yields are far cheaper.
/// Under the driver lock.
class CpuContention {
 public:
  using CpuTime = std::optional<std::chrono::nanoseconds> (*)(int pid) noexcept;
  using Sleeps = std::int64_t (*)() noexcept;

  /// `processes` of the ranks (a process may occur several times) share `cpus`. Empty: they are
  /// unknown, and `oversubscribed` is never true. `cpu_time`: the CPU time of a process so far;
  /// nullopt if we cannot see it. `sleeps`: how often the calling thread has slept so far.
  CpuContention(int cpus, std::vector<int> processes, CpuTime cpu_time, Sleeps sleeps);

  /// Call after a yield that took long. True: other processes compete for the CPUs.
  [[nodiscard]] bool after_long_yield(engine::TimePoint now) noexcept;
  /// True if waits are to sleep at once, because it was oversubscribed a moment ago.
  [[nodiscard]] bool oversubscribed() const noexcept { return waits_ > 0; }
  void wait_ended() noexcept {
    if (waits_ > 0) --waits_;
  }

 private:
  struct Sample {
    engine::TimePoint when{};
    std::chrono::nanoseconds used{0};
    std::int64_t sleeps = 0;
  };
  [[nodiscard]] std::optional<std::chrono::nanoseconds> used() const noexcept;

  int cpus_;  ///< how many the ranks could fill
  std::vector<int> processes_;
  CpuTime cpu_time_;
  Sleeps sleeps_;
  std::optional<Sample> last_;
  int waits_ = 0;       ///< how many more waits sleep at once
  int next_waits_ = 0;  ///< the value of waits_ after the next detection
};

}  // namespace tutti::native
