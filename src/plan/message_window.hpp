#pragma once

#include <algorithm>
#include <cstddef>

#include "base/index.hpp"
#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

inline constexpr int kWindow = 4;  ///< chunks that may be on their way from one rank

/// For a rank that keeps a window of every rank's chunks: shorter ones in larger groups, so that
/// all of them together take 2 MiB (but no shorter than is worth a message). So much is on its way
/// to a rank at a time: at 12 GB/s enough for 170 us there and back.
[[nodiscard]] inline std::size_t window_chunk(const Shape& s) noexcept {
  constexpr std::size_t kTogether = std::size_t{2} << 20;
  constexpr std::size_t kLeast = std::size_t{16} * 1024;
  const std::size_t chunks = base::as_size(kWindow) * base::as_size(s.size);
  return std::min(s.chunk_bytes, std::max(kTogether / chunks / 64 * 64, kLeast));
}

/// All of a reduction of one rank alone.
[[nodiscard]] inline Schedule alone(Program& p) {
  p.agree();
  p.copy(output(whole()), input(whole()));
  return p.take();
}

}  // namespace tutti::plan
