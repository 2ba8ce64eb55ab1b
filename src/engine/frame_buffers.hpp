#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::engine {

/// Memory for payloads that are kept, in a few sizes: buffers are used again and never grow, and a
/// small payload does not occupy a large buffer.
class FrameBuffers {
 public:
  static constexpr std::array<std::size_t, 5> kSizes{
      256, 2048, std::size_t{16} * 1024, std::size_t{64} * 1024, transport::kMaxFramePayload};
  /// The size of the buffer for this many bytes, at most kMaxFramePayload.
  [[nodiscard]] static constexpr std::size_t size_for(std::size_t bytes) noexcept {
    for (const std::size_t size : kSizes) {
      if (bytes <= size) return size;
    }
    return kSizes.back();
  }

  FrameBuffers();
  /// A buffer of size_for(bytes) bytes, with any content.
  [[nodiscard]] std::vector<std::byte> acquire(std::size_t bytes);
  /// Keeps the buffer for the next `acquire`. A buffer of another size is freed.
  void release(std::vector<std::byte> buffer) noexcept;

 private:
  std::array<std::vector<std::vector<std::byte>>, kSizes.size()> free_;
};

}  // namespace tutti::engine
