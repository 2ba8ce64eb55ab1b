#pragma once

#include <algorithm>
#include <chrono>

namespace tutti::base {

/// `now` and `limit` later, without overflow. The longest time means no end and becomes a hundred
/// years, so callers can still add to the deadline.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::steady_clock::time_point deadline_after(
    std::chrono::steady_clock::time_point now, std::chrono::duration<Rep, Period> limit) noexcept {
  using Duration = std::chrono::duration<Rep, Period>;
  constexpr auto kLongest = std::chrono::duration_cast<Duration>(std::chrono::hours(24 * 36525));
  return now + std::chrono::nanoseconds(std::min(limit, kLongest));
}

}  // namespace tutti::base
