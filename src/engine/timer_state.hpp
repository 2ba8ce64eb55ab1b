#pragma once

#include "engine/clock.hpp"

namespace tutti::engine {

/// The times of an operation. No clock is read for them before the first look at what waits.
struct TimerState {
  TimePoint deadline{};  ///< unset until then
  TimePoint started{};
  TimePoint pinged_blocking{};  ///< when those we wait for were told last what we are doing
  TimePoint asked{};  ///< when the deadline had passed and the others were asked where they are
  TimePoint history_until{};        ///< a rank that was asked for its calls has so long to answer
  bool pinged_unconnected = false;  ///< all have been asked something before the deadline
};

}  // namespace tutti::engine
