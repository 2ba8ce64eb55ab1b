#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "base/forks.hpp"

namespace tutti::os {

/// A clock for timeouts that does not count the time in which this process was stopped (Ctrl-Z,
/// SIGSTOP, a frozen container): else a continued job would find all of them over at once. No
/// signal reports that the process was stopped. The clock notices that it was not read for a while,
/// and counts at most kMostCounted of that gap. It never goes back, and may be read by any thread.
///
/// Use it where whoever watches a deadline reads it often, and never destroy it.
class RunningClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// Much longer than those that watch deadlines sleep, much shorter than a useful timeout.
  static constexpr std::chrono::seconds kMostCounted{1};

  /// `steady`: what the steady clock shows; the first time is told as it is.
  [[nodiscard]] TimePoint at(TimePoint steady) noexcept {
    const Ticks now = steady.time_since_epoch();
    // Callers that wait read it all the time, on many threads: three loads, and no store. acquire:
    // who sees a new `stopped_` sees the kNone before it.
    const Ticks noted = noted_.load(std::memory_order_acquire);
    const Ticks stopped = stopped_.load(std::memory_order_acquire);
    if (noted_.load(std::memory_order_relaxed) == noted && now >= noted && now - noted < kNoteEvery)
        [[likely]]
      return TimePoint(now - stopped);
    return note(now);
  }

 private:
  using Ticks = TimePoint::duration;
  static constexpr Ticks kNone{};  // of `noted_`: it is being changed, or was never read
  static constexpr std::chrono::milliseconds kNoteEvery{10};

  TimePoint note(Ticks now) noexcept {
    const std::lock_guard lock(mutex_);
    if (read_ != kNone && now > read_ + kMostCounted) {
      noted_.store(kNone);
      stopped_.store(stopped_.load() + now - read_ - kMostCounted);
    }
    read_ = std::max(read_, now);
    noted_.store(read_);
    return TimePoint(read_ - stopped_.load());
  }

  base::ForkMutex mutex_;  // for those who write
  Ticks read_{};           // the last time that was noted
  std::atomic<Ticks> noted_{};
  std::atomic<Ticks> stopped_{};
};

}  // namespace tutti::os
