#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <tutti/error.hpp>

#include "os/address.hpp"

// What our connections ask of the kernel.
namespace tutti::transport {

/// No delay for small frames, a short unsent queue, keep-alive, and on loopback a congestion
/// control that does not pace.
void tune_stream(int fd, const os::Address& peer) noexcept;

/// From here on closing sends a reset at once, instead of an end of the stream behind what has not
/// arrived: a peer that we cannot hear any more may hear us.
void reset_when_closed(int fd) noexcept;

/// Bytes that the peer's kernel has not acknowledged; 0 if that cannot be told.
[[nodiscard]] std::size_t unacknowledged(int fd) noexcept;

/// Finds connections that were cut while data were on the way, within a second.
///
/// TCP_USER_TIMEOUT would do that, too, but it also ends connections whose peer lives and does not
/// read (a stopped process): then its window is closed, its kernel still answers our probes, and
/// the deadline of the operation decides (decisions E6). So we look at the kernel's counters.
class StallWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Verdict : unsigned char { idle, waiting, dead };

  /// Call about every 100 ms while data may be on the way. `idle`: nothing is; no need to call.
  Verdict look(int fd, TimePoint now) noexcept;
  /// For how long the peer's host had not answered when it was found dead.
  [[nodiscard]] std::chrono::milliseconds silence() const noexcept { return silence_; }

 private:
  bool stuck_ = false;
  std::uint64_t acked_ = 0;
  TimePoint since_{};
  TimePoint heard_{};           ///< of the last packet from there
  std::uint32_t repeated_ = 0;  ///< what we had sent more than once by then
  bool probed_ = false;         ///< at a closed window more than once, without an answer, ...
  TimePoint probed_since_{};    ///< ... seen then
  std::chrono::milliseconds silence_{};
};

}  // namespace tutti::transport
