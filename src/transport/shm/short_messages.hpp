#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include <tutti/error.hpp>

#include "transport/shm/fetch.hpp"
#include "transport/shm/layout.hpp"
#include "transport/shm/words.hpp"
#include "transport/transport.hpp"

// The lines of short messages between two ranks of a host, behind the ring from one to the other.
// docs/design/shared-memory.md tells how they keep their order among the frames of the ring.
namespace tutti::transport::shm {

/// Bytes of a message in its first line, and in each other one, behind its count.
inline constexpr std::size_t kFirstData = sizeof(ShortMessage::data);
inline constexpr std::size_t kRestData = sizeof(ShortMessage) - sizeof(ShortMessage::count);
static_assert((kMaxShort - kFirstData) % kRestData == 0);

/// How many lines a message of so many bytes takes.
[[nodiscard]] constexpr std::size_t short_lines(std::size_t bytes) noexcept {
  return bytes <= kFirstData ? 1 : 1 + (bytes - kFirstData + kRestData - 1) / kRestData;
}
static_assert(short_lines(kMaxShort) <= kShortLines / 4);

/// `after` of a short message behind so many bytes of a ring.
[[nodiscard]] constexpr std::uint32_t units_of(std::uint64_t position) noexcept {
  return static_cast<std::uint32_t>(position / kRingAlign) & kAfter;
}

/// The bytes of one.
using ShortData = std::array<std::byte, kMaxShort>;

[[nodiscard]] inline ShortHead head_of(const ShortMessage& line) noexcept {
  return {line.group, line.tag, line.number, static_cast<std::uint8_t>(line.after >> 24),
          line.bytes};
}

/// The bytes in a line that is not a message's first.
[[nodiscard]] inline const std::byte* rest_of(const ShortMessage& line) noexcept {
  return reinterpret_cast<const std::byte*>(&line) + sizeof line.count;
}
[[nodiscard]] inline std::byte* rest_of(ShortMessage& line) noexcept {
  return reinterpret_cast<std::byte*>(&line) + sizeof line.count;
}

/// Writes the short messages to one peer.
class ShortWriter {
 public:
  using Populate = std::function<Outcome(std::byte* data, std::size_t size)>;

  ShortWriter(ShortMessage* lines, RingCounters* mine, const RingCounters* theirs) noexcept
      : lines_(lines), mine_(mine), theirs_(theirs) {}

  /// `written`: bytes of the ring before it. False: too few lines are free, or memory is short.
  [[nodiscard]] bool send(const ShortHead& head, const std::byte* payload, std::uint64_t written,
                          const Populate& populate) noexcept {
    const std::size_t lines = short_lines(head.bytes);
    if (sent_ + lines - taken_ > kShortLines) [[unlikely]] {
      taken_ = shorts_taken_by(*theirs_);
      if (sent_ + lines - taken_ > kShortLines) return false;
    }
    if (sent_ == 0) [[unlikely]] {
      auto* const memory = reinterpret_cast<std::byte*>(lines_);
      if (!populate(memory, kShortLines * sizeof(ShortMessage)).ok()) return false;
      // relaxed: the lines are zero until there is something to see.
      mine_->sends_short.store(1, std::memory_order_relaxed);
    }
    ShortMessage& line = lines_[sent_ % kShortLines];
    line.number = head.number;
    line.bytes = head.bytes;
    line.group = head.group;
    line.tag = head.tag;
    line.after = units_of(written) | std::uint32_t{head.dtype} << 24;
    std::size_t copied = std::min<std::size_t>(head.bytes, kFirstData);
    if (copied > 0) std::memcpy(line.data, payload, copied);
    show_short(line, ++sent_);
    // Each line is shown at once: the reader fetches it while the next one is written.
    for (; copied < head.bytes; copied += kRestData) {
      ShortMessage& more = lines_[sent_ % kShortLines];
      std::memcpy(rest_of(more), payload + copied,
                  std::min<std::size_t>(head.bytes - copied, kRestData));
      show_short(more, ++sent_);
    }
    return true;
  }
  [[nodiscard]] bool used() const noexcept { return sent_ > 0; }

 private:
  ShortMessage* lines_;
  RingCounters* mine_;
  const RingCounters* theirs_;
  std::uint64_t sent_ = 0;   ///< lines
  std::uint64_t taken_ = 0;  ///< by the peer, as last seen
};

/// Reads those of one peer.
class ShortReader {
 public:
  ShortReader(const ShortMessage* lines, RingCounters* mine, const RingCounters* theirs) noexcept
      : lines_(lines), mine_(mine), theirs_(theirs) {}

  /// The first line of the next one, if all of it has come and only so many bytes of the ring are
  /// before it; else nullptr.
  [[nodiscard]] const ShortMessage* next(std::uint64_t ring_taken) noexcept {
    if (!expects()) return nullptr;
    const ShortMessage& line = lines_[taken_ % kShortLines];
    const bool is_next = short_has_come(line, taken_ + 1) &&
                         (line.after & kAfter) == units_of(ring_taken) &&
                         (line.bytes <= kFirstData || rest_has_come(line.bytes));
    return is_next ? &line : nullptr;
  }
  /// The peer has sent short messages. A line that was never used is not read: that would take
  /// memory.
  [[nodiscard]] bool expects() noexcept {
    // relaxed: as in `send`.
    if (!used_) used_ = theirs_->sends_short.load(std::memory_order_relaxed) != 0;
    return used_;
  }
  [[nodiscard]] bool used() const noexcept { return used_; }
  /// Copies so many bytes, at most kMaxShort, of the next one, and steps over it. Rarely gives the
  /// lines back, so that the cache line stays with the writer. A writer without a free line sends a
  /// frame, so nobody waits for this.
  void take(std::size_t bytes, std::byte* into) noexcept {
    const ShortMessage& line = lines_[taken_++ % kShortLines];
    std::size_t copied = std::min(bytes, kFirstData);
    if (copied > 0) std::memcpy(into, line.data, copied);
    for (; copied + kRestData <= bytes; copied += kRestData)
      std::memcpy(into + copied, rest_of(lines_[taken_++ % kShortLines]), kRestData);
    if (copied < bytes)
      std::memcpy(into + copied, rest_of(lines_[taken_++ % kShortLines]), bytes - copied);
    if (taken_ - shown_ < kShortLines / 4) return;
    shown_ = taken_;
    show_shorts_taken(*mine_, taken_);
  }

 private:
  /// A length that is not allowed has come, too: it is refused then.
  [[nodiscard]] bool rest_has_come(std::size_t bytes) const noexcept {
    if (bytes > kMaxShort) return true;
    const std::size_t lines = short_lines(bytes);
    for (std::size_t i = 1; i < lines; ++i) fetch_to_read(&lines_[(taken_ + i) % kShortLines]);
    return short_has_come(lines_[(taken_ + lines - 1) % kShortLines], taken_ + lines);
  }

  const ShortMessage* lines_;
  RingCounters* mine_;
  const RingCounters* theirs_;
  std::uint64_t taken_ = 0;  ///< lines
  std::uint64_t shown_ = 0;  ///< of them, to the writer
  bool used_ = false;
};

}  // namespace tutti::transport::shm
