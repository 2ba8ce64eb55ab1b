#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "transport/transport.hpp"

namespace tutti::transport {

/// Cuts a stream of bytes into frames and hands them to a Sink. No I/O; trusts nothing.
class FrameReader {
 public:
  enum class Verdict : unsigned char {
    ok,
    left,       ///< a leave frame; bytes after it are ignored
    oversized,  ///< a payload longer than kMaxFramePayload
    malformed,  ///< no such type, or a reserved field that is not zero
    refused,    ///< the sink does not want it
  };

  explicit FrameReader(int peer) noexcept : peer_(peer) {}

  /// The next bytes of the stream, wherever they were cut. After anything but ok: no more.
  Verdict feed(std::span<const std::byte> bytes, Sink& sink) noexcept;
  /// The memory for the rest of the payload that is arriving. A socket may be read directly into
  /// it; then call `filled`. Empty if no payload is awaited, or if its rest is to be dropped.
  [[nodiscard]] std::span<std::byte> awaited() const noexcept { return target_; }
  Verdict filled(std::size_t bytes, Sink& sink) noexcept;
  /// Drops the rest of the payload that is arriving, without on_frame. After that the memory that
  /// on_header gave is not touched.
  void drop_arriving() noexcept;

  /// The head that was refused, for the error text.
  [[nodiscard]] const FrameHeader& header() const noexcept { return header_; }

 private:
  Verdict begin_frame(Sink& sink) noexcept;

  int peer_;
  FrameHeader header_;
  std::array<std::byte, sizeof(FrameHeader)> head_{};
  std::size_t head_bytes_ = 0;   ///< of head_; all of them while a payload arrives
  std::span<std::byte> target_;  ///< rest of the payload
  std::size_t skip_ = 0;         ///< payload bytes to be dropped
};

}  // namespace tutti::transport
