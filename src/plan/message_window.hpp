#pragma once

#include <algorithm>
#include <cstddef>

#include "plan/builders.hpp"

namespace tutti::plan {

inline constexpr int kWindow = 4;  ///< chunks that may be on their way from one rank

/// For who keeps a chunk of every rank: shorter chunks in large groups, so that all of them
/// together are not more than 16 ranks' (but no shorter than is worth a message).
[[nodiscard]] inline std::size_t window_chunk(const Shape& s) noexcept {
  constexpr std::size_t kLeast = 16 * 1024;
  if (s.size <= 16 || s.chunk_bytes <= kLeast) return s.chunk_bytes;
  const std::size_t less = s.chunk_bytes * 16 / static_cast<std::size_t>(s.size) / 64 * 64;
  return std::max(less, kLeast);
}

}  // namespace tutti::plan
