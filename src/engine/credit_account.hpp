#pragma once

#include <algorithm>
#include <cstdint>

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

// Operations: bytes of one stream that may be sent before the peer has entered the operation.
inline constexpr std::uint64_t kEagerPerStream = 64 * 1024;
// The same for all streams to one peer together.
inline constexpr std::uint64_t kEagerPerPeer = 512 * 1024;
inline constexpr std::uint64_t kEagerReport = 64 * 1024;
// A frame counts at least this much, because even a small one costs memory while it is held.
inline constexpr std::uint64_t kEagerLeast = 64;

/// The credit that a data frame takes.
[[nodiscard]] constexpr std::uint64_t eager_cost(std::uint64_t bytes) noexcept {
  return std::max(bytes, kEagerLeast);
}

// Point to point: the largest eager message.
inline constexpr std::uint64_t kEagerLimit = 64 * 1024;
// The bytes of all eager messages to one peer. It is more than kEagerLimit, because the receiver
// reports only after each kP2PEagerReport: so a message of kEagerLimit always fits once the
// receiver has used all others.
inline constexpr std::uint64_t kP2PEagerCredit = 128 * 1024;
inline constexpr std::uint64_t kP2PEagerReport = 32 * 1024;
// Messages, eager or announced by an RTS, that may wait at a process for their recv.
inline constexpr std::uint64_t kMatchCredit = 65536;
inline constexpr std::uint64_t kMatchReport = kMatchCredit / 4;

/// The credit that an eager message takes.
[[nodiscard]] constexpr std::uint64_t unexpected_cost(std::uint64_t bytes) noexcept {
  return bytes == 0 ? 0 : eager_cost(bytes);
}

}  // namespace tutti::engine
