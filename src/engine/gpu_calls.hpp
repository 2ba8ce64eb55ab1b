#pragma once

#include <cstdint>

// Calls whose elements GPUs move. The engine only compares them, and lets the ranks meet: such a
// call has a digest of this kind as its `Collective::digest`, and runs like a barrier.
namespace tutti::engine {

/// Never 0, never the digest of blocks, of several tensors or of a user's op. `tensors`: what
/// extent_of says of the call as it would be without GPUs.
[[nodiscard]] constexpr std::uint64_t gpu_call_digest(std::uint64_t tensors) noexcept {
  return (tensors * 0x9e3779b97f4a7c15ULL & ~std::uint64_t{15}) | 8;
}

/// Is that digest such a one?
[[nodiscard]] constexpr bool is_gpu_call(std::uint64_t digest) noexcept {
  return (digest & 15) == 8;
}

}  // namespace tutti::engine
