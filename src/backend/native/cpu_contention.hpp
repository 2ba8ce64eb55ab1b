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

  /// `processes` of the ranks, any number of times each, share `cpus`. None: they are
  /// unknown, and `oversubscribed` is never true. `cpu_time`: what a process has used so far;
  /// nullopt where it is not to be seen. `sleeps`: how often the calling thread has slept so far.
  CpuContention(int cpus, std::vector<int> processes, CpuTime cpu_time, Sleeps sleeps);

  /// A yield has taken long, which ends now. True: it is oversubscribed.
  [[nodiscard]] bool after_long_yield(engine::TimePoint now) noexcept;
  /// Waits shall sleep at once: it was oversubscribed shortly before.
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

  int cpus_;  ///< that the ranks could fill
  std::vector<int> processes_;
  CpuTime cpu_time_;
  Sleeps sleeps_;
  std::optional<Sample> last_;
  int waits_ = 0;       ///< that shall sleep at once
  int next_waits_ = 0;  ///< how many they will be the next time
};

}  // namespace tutti::native
