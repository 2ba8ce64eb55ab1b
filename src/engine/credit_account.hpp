#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/transport.hpp"

namespace tutti::engine {

/// The credit between two processes, over all groups: how much each may send before the other has
/// asked for it, in one unit (bytes or messages). Each side counts from the start of the
/// connection, and reports totals. So a lost report does no harm: the next one includes it.
///
/// Operations and messages point to point have accounts of their own: a message may wait for ever
/// for a recv of the user, and must not take credit from operations (docs/design/wire.md).
class CreditAccount {
 public:
  /// At most `limit` may be outstanding, each way. The receiver reports after each `report`.
  constexpr CreditAccount(std::uint64_t limit, std::uint64_t report) noexcept
      : limit_(limit), report_(report) {}

  // From us to the peer.
  [[nodiscard]] std::uint64_t room() const noexcept {
    return limit_ - std::min(limit_, sent_ - acked_);
  }
  void send(std::uint64_t amount) noexcept { sent_ += amount; }
  /// The peer has reported this total. An impossible total has no effect.
  void acknowledge(std::uint64_t total) noexcept {
    acked_ = std::max(acked_, std::min(total, sent_));
  }

  // From the peer to us.
  [[nodiscard]] bool may_receive(std::uint64_t amount) const noexcept {
    return received_ + amount - reported_ <= limit_;
  }
  /// False: the peer sends more than it may.
  [[nodiscard]] bool receive(std::uint64_t amount) noexcept {
    received_ += amount;
    return received_ - reported_ <= limit_;
  }
  /// `amount` was used or dropped, so the peer may send as much again.
  void take(std::uint64_t amount) noexcept { taken_ += amount; }
  [[nodiscard]] bool report_due() const noexcept { return taken_ - reported_ >= report_; }
  /// The total for a report.
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }
  void reported() noexcept { reported_ = taken_; }

 private:
  std::uint64_t limit_;
  std::uint64_t report_;
  std::uint64_t sent_ = 0;
  std::uint64_t acked_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t reported_ = 0;
};

/// How much the ranks of a world may send to each other unasked. All ranks know how many they are,
/// so both sides of a pair agree without a message.
struct EagerWindows {
  std::uint64_t peer;      ///< bytes of operations to one peer, in all streams together
  std::uint64_t stream;    ///< of these, bytes of one stream before the peer enters the operation
  std::uint64_t messages;  ///< bytes of eager messages to one peer, and more than kEagerLimit
};

/// A process keeps up to 32 MiB of operations, and as much of messages, for which it has not asked.
/// Each peer has an equal share, within bounds; the least take more in worlds of more than 64 and
/// 256 ranks. Eight operations, as many as run in a group, have a window each.
[[nodiscard]] constexpr EagerWindows eager_windows(std::size_t ranks) noexcept {
  constexpr std::uint64_t kKiB = 1024;
  const std::uint64_t share = std::bit_floor(32 * kKiB * kKiB / std::max<std::uint64_t>(ranks, 1));
  const std::uint64_t peer = std::clamp(share, 512 * kKiB, 2048 * kKiB);
  return {peer, peer / 8, std::clamp(share, 128 * kKiB, 2048 * kKiB)};
}
/// The windows of small worlds, which are the greatest.
inline constexpr EagerWindows kMostEager = eager_windows(1);

// A frame counts at least this much, because even a small one costs memory while it is held.
inline constexpr std::uint64_t kEagerLeast = 64;

/// The credit that a data frame takes.
[[nodiscard]] constexpr std::uint64_t eager_cost(std::uint64_t bytes) noexcept {
  return std::max(bytes, kEagerLeast);
}

// Point to point: the largest eager message.
inline constexpr std::uint64_t kEagerLimit = 64 * 1024;
// The receiver reports after each quarter of the window, so a message of kEagerLimit always fits
// once it has used all others.
static_assert(eager_windows(1 << 20).messages * 3 / 4 >= kEagerLimit);
/// How many bytes of a message of more than kEagerLimit may follow its RTS at once, while `room` of
/// the window is free. A quarter stays, which the receiver may not have reported yet, and
/// kEagerLimit: programs rely on that, so large messages must not take it. Of a message that does
/// not fit two pieces go: what 1 Gbit/s carries in 2 ms, until the CTS comes back.
[[nodiscard]] constexpr std::uint64_t bytes_ahead(std::uint64_t bytes, std::uint64_t room,
                                                  std::uint64_t window) noexcept {
  constexpr std::uint64_t kPiece = transport::kMaxFramePayload;
  const std::uint64_t kept = window / 4 + kEagerLimit;
  const std::uint64_t free = room - std::min(room, kept);
  return bytes <= free ? bytes : std::min<std::uint64_t>(free / kPiece, 2) * kPiece;
}

// Messages, eager or announced by an RTS, that may wait at a process for their recv.
inline constexpr std::uint64_t kMatchCredit = 65536;
inline constexpr std::uint64_t kMatchReport = kMatchCredit / 4;

/// The credit that so many bytes of a message take, which are sent before its recv is known.
[[nodiscard]] constexpr std::uint64_t unexpected_cost(std::uint64_t bytes) noexcept {
  return bytes == 0 ? 0 : eager_cost(bytes);
}

}  // namespace tutti::engine
