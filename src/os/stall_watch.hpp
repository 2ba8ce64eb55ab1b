#pragma once

#include <chrono>
#include <cstdint>

namespace tutti::os {

/// Finds TCP connections whose peer's host answers nothing while data are on the way.
///
/// TCP_USER_TIMEOUT would do that, too, but it also ends connections whose peer lives and does not
/// read (a stopped process): then its window is closed, its kernel still answers our probes, and
/// the deadline of the operation decides. So we look at the kernel's counters.
class StallWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Verdict : unsigned char { idle, waiting, dead };

  /// Call now and then while data may be on the way. `idle`: nothing is; no need to call. `limit`:
  /// how long the peer's host may be silent.
  Verdict look(int fd, TimePoint now, std::chrono::milliseconds limit) noexcept;
  /// For how long the peer's host had not answered when it was found dead.
  [[nodiscard]] std::chrono::milliseconds silence() const noexcept { return silence_; }

 private:
  bool stuck_ = false;
  std::uint64_t acked_ = 0;
  TimePoint since_{};           ///< the peer has acknowledged nothing new
  TimePoint heard_{};           ///< the last packet from there came
  std::uint32_t repeated_ = 0;  ///< what we had sent more than once by then
  bool asked_ = false;          ///< something was repeated, or the window probed, without an answer
  TimePoint asked_since_{};
  std::chrono::milliseconds silence_{};
};

}  // namespace tutti::os
