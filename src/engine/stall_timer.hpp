#pragma once

#include <chrono>
#include <cstdint>

#include "base/deadline.hpp"
#include "engine/clock.hpp"

namespace tutti::engine {

/// When the log is to report the first operation of a group that does not end. Ticks pass the time,
/// so no clock is read for it.
struct StallTimer {
  std::uint64_t number = 0;  ///< of the operation, or its ticket
  TimePoint since{};         ///< when it became the first one
  TimePoint due{};           ///< when it is to be reported next
  TimePoint asked{};         ///< when ranks were asked what they are doing; unset: none is asked
  int cleared = 0;           ///< how many ranks just below ours do not report it
  int count = 1;             ///< how many ranks below those are asked next

  /// True if it has waited for `after`, or is to be reported again. Another number starts over.
  [[nodiscard]] bool is_due(std::uint64_t first, TimePoint now,
                            std::chrono::nanoseconds after) noexcept {
    if (number != first || since == TimePoint{}) {
      *this = {.number = first, .since = now, .due = base::deadline_after(now, after)};
      return false;
    }
    return now >= due;
  }
  /// It was reported here or by another rank: report it again after it has waited twice as long.
  void set_next(TimePoint now) noexcept {
    due = now + (now - since);
    asked = {};
    cleared = 0;
    count = 1;
  }
};

}  // namespace tutti::engine
