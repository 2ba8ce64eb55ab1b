#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti::engine {

/// The credit of two processes: how much one may send before the other has asked, in one unit
/// (bytes or messages), over all groups. Each side counts from the start of the connection, so a
/// report says a total, and a lost report costs nothing: the next one says it.
///
/// Operations and messages point to point have accounts of their own: what waits for a recv of the
/// user, for ever perhaps, takes no credit from an operation (docs/wire.md).
class CreditAccount {
 public:
  /// At most `limit` may be outstanding, each way. A receiver reports after each `report`.
  constexpr CreditAccount(std::uint64_t limit, std::uint64_t report) noexcept
      : limit_(limit), report_(report) {}

  // To the peer.
  [[nodiscard]] std::uint64_t room() const noexcept {
    return limit_ - std::min(limit_, sent_ - acked_);
  }
  void send(std::uint64_t amount) noexcept { sent_ += amount; }
  /// The peer reports this total. A total that cannot be changes nothing.
  void acknowledge(std::uint64_t total) noexcept {
    acked_ = std::max(acked_, std::min(total, sent_));
  }

  // From the peer.
  /// False: it sends more than it may.
  [[nodiscard]] bool receive(std::uint64_t amount) noexcept {
    received_ += amount;
    return received_ - reported_ <= limit_;
  }
  /// So much is used or dropped, and counts no longer.
  void take(std::uint64_t amount) noexcept { taken_ += amount; }
  [[nodiscard]] bool report_due() const noexcept { return taken_ - reported_ >= report_; }
  /// The total that a report says.
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

// Of operations: bytes of a stream that may be sent before the peer has said that it
// entered the operation ...
inline constexpr std::uint64_t kEagerPerStream = 64 * 1024;
// ... and of all streams to one peer together.
inline constexpr std::uint64_t kEagerPerPeer = 512 * 1024;
inline constexpr std::uint64_t kEagerReport = 64 * 1024;
// A frame counts at least so much: what is held costs memory, however small it is.
inline constexpr std::uint64_t kEagerLeast = 64;

/// The credit that a data frame takes.
[[nodiscard]] constexpr std::uint64_t eager_cost(std::uint64_t bytes) noexcept {
  return std::max(bytes, kEagerLeast);
}

// Point to point. The largest message that goes to its receiver before that has
// called recv ...
inline constexpr std::uint64_t kEagerLimit = 64 * 1024;
// ... and of all such messages together. More than one, as the receiver reports only now and then.
inline constexpr std::uint64_t kP2PEagerCredit = 128 * 1024;
inline constexpr std::uint64_t kP2PEagerReport = 32 * 1024;
// Messages, with their bytes or without, that may wait at a process for their recv.
inline constexpr std::uint64_t kMatchCredit = 65536;
inline constexpr std::uint64_t kMatchReport = kMatchCredit / 4;

/// The credit that an eager message takes.
[[nodiscard]] constexpr std::uint64_t unexpected_cost(std::uint64_t bytes) noexcept {
  return bytes == 0 ? 0 : eager_cost(bytes);
}

}  // namespace tutti::engine
