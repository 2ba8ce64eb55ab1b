#pragma once

#include <cstdint>

#include "engine/clock.hpp"

namespace tutti::engine {

/// The times of an operation. No clock is read for them before the first look at what waits.
struct TimerState {
  TimePoint deadline{};      ///< unset until then
  std::uint64_t record = 0;  ///< number in the flight recorder
  TimePoint started{};
  TimePoint pinged_blocking{};  ///< when those we wait for were told last what we are doing
  TimePoint asked{};  ///< when the deadline had passed and the others were asked where they are
  TimePoint history_until{};        ///< a rank that was asked for its calls has so long to answer
  bool pinged_unconnected = false;  ///< all have been asked something before the deadline
};

/// Of the first call that waits for a slot of its group.
struct QueueTimer {
  std::uint64_t seq = 0;  ///< its number, since `since`
  TimePoint since{};
  int waiting_for = -1;     ///< the rank of our host that has not passed the one before it ...
  TimePoint begun_since{};  ///< ... and since when it is seen to have begun that one itself
};

}  // namespace tutti::engine
