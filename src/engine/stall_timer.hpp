#pragma once

#include <chrono>
#include <cstdint>

#include "base/deadline.hpp"
#include "engine/clock.hpp"

namespace tutti::engine {

/// When the first operation of a group that does not end is to be told of. No clock is read for it:
/// ticks tell the time.
struct StallTimer {
  std::uint64_t number = 0;  ///< of the operation, or its ticket
  TimePoint since{};         ///< it has been the first one
  TimePoint due{};           ///< when it is to be told next
  TimePoint asked{};         ///< ranks were asked where they are; unset: none is
  int cleared = 0;           ///< so many ranks just below ours do not tell
  int count = 1;             ///< of those below them so many are asked

  /// Has it waited so long, or for so long again since it was told? Another number begins anew.
  [[nodiscard]] bool is_due(std::uint64_t first, TimePoint now,
                            std::chrono::nanoseconds after) noexcept {
    if (number != first || since == TimePoint{}) {
      *this = {.number = first, .since = now, .due = base::deadline_after(now, after)};
      return false;
    }
    return now >= due;
  }
  /// It was told, or another rank tells: the next time when it has waited twice as long.
  void set_next(TimePoint now) noexcept {
    due = now + (now - since);
    asked = {};
    cleared = 0;
    count = 1;
  }
};

}  // namespace tutti::engine
