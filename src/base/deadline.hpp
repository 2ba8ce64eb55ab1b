#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace tutti::base {

/// A hundred years: a time that does not end, and that can still be added to.
inline constexpr std::chrono::hours kNoLimit(24 * 36525);

/// `now` and `limit` later, without overflow: at most `kNoLimit` later.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::steady_clock::time_point deadline_after(
    std::chrono::steady_clock::time_point now, std::chrono::duration<Rep, Period> limit) noexcept {
  using Duration = std::chrono::duration<Rep, Period>;
  constexpr auto kLongest = std::chrono::duration_cast<Duration>(kNoLimit);
  return now + std::chrono::nanoseconds(std::min(limit, kLongest));
}

/// The time until then, rounded up; none if it has passed.
[[nodiscard]] inline std::chrono::milliseconds left_until(
    std::chrono::steady_clock::time_point deadline) noexcept {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(left),
                  std::chrono::milliseconds::zero());
}

/// "1.5 s", "1800 s".
[[nodiscard]] inline std::string seconds_text(std::chrono::nanoseconds duration) {
  char text[32];
  const double seconds = std::chrono::duration<double>(duration).count();
  std::snprintf(text, sizeof(text), seconds < 999.5 ? "%.3g s" : "%.0f s", seconds);
  return text;
}

}  // namespace tutti::base
