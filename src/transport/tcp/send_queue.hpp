#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::transport {

/// Frames that wait for the socket. There are few, so that an abort need not wait long. No I/O.
class SendQueue {
 public:
  static constexpr std::size_t kFrames = 4;
  static constexpr std::size_t kBytes = 512 * 1024;
  static constexpr std::size_t kMaxPieces = 2 * (kFrames + 1);

  [[nodiscard]] bool has_room() const noexcept { return count_ < kFrames && bytes_ < kBytes; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Only while has_room(). The payload must stay until finished() has reached the token.
  void push(const FrameHeader& header, const std::byte* payload, std::uint64_t token) noexcept;
  /// The last frame of all; there is always room for it.
  void push_leave() noexcept;
  /// Gives the next bytes to send, in order; returns the number of pieces.
  std::size_t pieces(std::span<iovec, kMaxPieces> out) const noexcept;
  /// The first `bytes` of the queue have been sent.
  void sent(std::size_t bytes) noexcept;
  /// The greatest token whose frame, and all before it, is sent.
  [[nodiscard]] std::uint64_t finished() const noexcept { return finished_; }
  /// Copies the payloads that are not sent yet, so that callers' memory is not read any more. May
  /// throw bad_alloc.
  void keep_payloads();
  /// Forgets all frames.
  void clear() noexcept;

 private:
  struct Frame {
    FrameHeader header;
    const std::byte* payload = nullptr;
    std::uint64_t token = 0;  ///< 0: a leave frame, which on_sent does not report
    std::vector<std::byte> kept;
  };
  [[nodiscard]] Frame& at(std::size_t i) noexcept { return ring_[(head_ + i) % ring_.size()]; }
  [[nodiscard]] const Frame& at(std::size_t i) const noexcept {
    return ring_[(head_ + i) % ring_.size()];
  }

  std::array<Frame, kFrames + 1> ring_;
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;     ///< of all frames, less what is sent
  std::size_t progress_ = 0;  ///< sent bytes of the first frame
  std::uint64_t finished_ = 0;
};

}  // namespace tutti::transport
