#pragma once

#include <cstdint>

#include "engine/clock.hpp"
#include "engine/pace.hpp"

namespace tutti::engine {

/// The times of an operation. No clock is read for them before the first tick that sees it.
struct TimerState {
  TimePoint deadline{};      ///< unset until then
  std::uint64_t record = 0;  ///< number in the flight recorder
  TimePoint started{};
  TimePoint pinged_blocking{};  ///< when the ranks that we wait for were last pinged
  TimePoint asked{};  ///< when the deadline had passed and the ranks of other hosts were pinged
  TimePoint asked_ahead{};    ///< when ranks were asked, before the deadline, what they are doing
  TimePoint history_until{};  ///< the other rank must have broken the group by then
  Pace pace;
};

/// The times of the first call that waits for a slot of its group.
struct QueueTimer {
  std::uint64_t seq = 0;    ///< the number of that call
  TimePoint since{};        ///< when it became the first one
  int waiting_for = -1;     ///< the rank of our host that has not passed the operation in its slot
  TimePoint begun_since{};  ///< when that rank was first seen to have begun that operation itself
  TimePoint asked_ahead{};  ///< when it was asked, before the deadline, what it is doing
};

}  // namespace tutti::engine
