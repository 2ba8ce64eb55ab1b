#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/clock.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

using transport::MovedBytes;

/// How fast an operation moves bytes. Ticks note them, so no clock is read for it.
struct Pace {
  /// Shorter spans say little, as frames come in bursts. Only the first span counts before its end.
  static constexpr auto kSpan = std::chrono::seconds(1);

  TimePoint since{};
  std::uint64_t bytes = 0;       ///< that had been moved then
  std::uint64_t per_second = 0;  ///< in the last span
  bool first = true;             ///< no span has ended

  void note(std::uint64_t moved, TimePoint now) noexcept {
    if (since == TimePoint{}) {
      since = now;
      bytes = moved;
    }
    const bool over = now - since >= kSpan;
    if (now == since || (!over && !first)) return;
    const double seconds = std::chrono::duration<double>(now - since).count();
    per_second = static_cast<std::uint64_t>(static_cast<double>(moved - bytes) / seconds);
    if (!over) return;
    since = now;
    bytes = moved;
    first = false;
  }
};

/// ", 131072 a second".
[[nodiscard]] inline std::string pace_text(std::uint64_t per_second) {
  return ", " + std::to_string(per_second) + " a second";
}

}  // namespace tutti::engine
