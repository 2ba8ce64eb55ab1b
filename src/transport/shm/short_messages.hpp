#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include <tutti/error.hpp>

#include "transport/shm/layout.hpp"
#include "transport/shm/words.hpp"
#include "transport/transport.hpp"

// The lines of short messages between two ranks of a host, behind the ring from one to the other.
// docs/design/shared-memory.md tells how they keep their order among the frames of the ring.
namespace tutti::transport::shm {

static_assert(sizeof(ShortMessage::data) == kMaxShort);

/// `after` of a short message behind so many bytes of a ring.
[[nodiscard]] constexpr std::uint32_t units_of(std::uint64_t position) noexcept {
  return static_cast<std::uint32_t>(position / kRingAlign);
}

/// Writes the short messages to one peer.
class ShortWriter {
 public:
  using Populate = std::function<Outcome(std::byte* data, std::size_t size)>;

  ShortWriter(ShortMessage* lines, RingCounters* mine, const RingCounters* theirs) noexcept
      : lines_(lines), mine_(mine), theirs_(theirs) {}

  /// `written`: bytes of the ring before it. False: no line is free, or memory is short.
  [[nodiscard]] bool send(const ShortHead& head, const std::byte* payload, std::uint64_t written,
                          const Populate& populate) noexcept {
    if (sent_ - taken_ >= kShortMessages) [[unlikely]] {
      taken_ = shorts_taken_by(*theirs_);
      if (sent_ - taken_ >= kShortMessages) return false;
    }
    if (sent_ == 0) [[unlikely]] {
      auto* const memory = reinterpret_cast<std::byte*>(lines_);
      if (!populate(memory, kShortMessages * sizeof(ShortMessage)).ok()) return false;
      // relaxed: the lines are zero until there is something to see.
      mine_->sends_short.store(1, std::memory_order_relaxed);
    }
    ShortMessage& line = lines_[sent_ % kShortMessages];
    line.number = head.number;
    line.dtype = head.dtype;
    line.bytes = head.bytes;
    line.group = head.group;
    line.tag = head.tag;
    line.after = units_of(written);
    if (head.bytes > 0) std::memcpy(line.data, payload, head.bytes);
    show_short(line, ++sent_);
    return true;
  }
  [[nodiscard]] bool used() const noexcept { return sent_ > 0; }

 private:
  ShortMessage* lines_;
  RingCounters* mine_;
  const RingCounters* theirs_;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;  ///< by the peer, as last seen
};

/// Reads those of one peer.
class ShortReader {
 public:
  ShortReader(const ShortMessage* lines, RingCounters* mine, const RingCounters* theirs) noexcept
      : lines_(lines), mine_(mine), theirs_(theirs) {}

  /// The next one, if it has come and only so many bytes of the ring are before it; else nullptr.
  [[nodiscard]] const ShortMessage* next(std::uint64_t ring_taken) noexcept {
    if (!expects()) return nullptr;
    const ShortMessage& line = lines_[taken_ % kShortMessages];
    const bool is_next = short_has_come(line, taken_ + 1) && line.after == units_of(ring_taken);
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
  /// Steps over the next one, which stays until `show`.
  void took() noexcept { ++taken_; }
  /// Rarely gives the lines back, so that the cache line stays with the writer. A writer without a
  /// free line sends a frame, so nobody waits for this.
  void show() noexcept {
    if (taken_ % (kShortMessages / 4) == 0) show_shorts_taken(*mine_, taken_);
  }

 private:
  const ShortMessage* lines_;
  RingCounters* mine_;
  const RingCounters* theirs_;
  std::uint64_t taken_ = 0;
  bool used_ = false;
};

}  // namespace tutti::transport::shm
