#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::engine {

/// Memory for what is kept of frames, in a few sizes: buffers go round without ever growing again,
/// and a small frame does not lie in a large one.
class FrameBuffers {
 public:
  static constexpr std::array<std::size_t, 5> kSizes{
      256, 2048, std::size_t{16} * 1024, std::size_t{64} * 1024, transport::kMaxFramePayload};
  /// Bytes of the buffer that so many bytes get; at most kMaxFramePayload are asked for.
  [[nodiscard]] static constexpr std::size_t size_for(std::size_t bytes) noexcept {
    for (const std::size_t size : kSizes) {
      if (bytes <= size) return size;
    }
    return kSizes.back();
  }

  FrameBuffers();
  /// size_for(bytes) bytes, whatever is in them.
  [[nodiscard]] std::vector<std::byte> take(std::size_t bytes);
  /// For the next call of `take`. A buffer of another size is given to the system.
  void give(std::vector<std::byte> buffer) noexcept;

 private:
  std::array<std::vector<std::vector<std::byte>>, kSizes.size()> free_;
};

}  // namespace tutti::engine
