#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "call/call_side.hpp"
#include "cuda/packer.hpp"

namespace tutti::gpu {

/// Calls `look(piece, before)` for each tensor that has some of the elements [begin, begin + count)
/// of a side; `before`: how many of them earlier tensors have.
template <class Look>
void each_part(const call::CallSide& side, std::size_t begin, std::size_t count, const Look& look) {
  std::size_t before = 0;
  side.each([&](const Piece& piece) {
    const std::size_t from = std::max(begin, before);
    const std::size_t to = std::min(begin + count, before + piece.count);
    if (from < to) look(Piece{piece.view, piece.first + from - before, to - from}, from - begin);
    before += piece.count;
  });
}

/// A row of elements that is divided into parts.
struct Parts {
  std::size_t count = 0;  ///< elements of the row
  std::size_t most = 0;   ///< elements of a part

  /// At least 1.
  [[nodiscard]] std::uint64_t number() const noexcept {
    return count == 0 ? 1 : (count - 1) / most + 1;
  }
  [[nodiscard]] std::size_t begin_of(std::uint64_t part) const noexcept {
    return static_cast<std::size_t>(part) * most;
  }
  [[nodiscard]] std::size_t length_of(std::uint64_t part) const noexcept {
    return std::min(most, count - begin_of(part));
  }
};

/// Copies elements between the caller's tensors and a contiguous row, on a stream.
struct PartCopy {
  cuda::Calls& calls;
  cuda::CudaApi& cuda;
  cuda::Stream stream;

  /// Copies elements [begin, begin + count) of a side to the row if `packs`, else from it. False:
  /// `calls` has the failure.
  bool move(const call::CallSide& side, std::size_t begin, std::size_t count, std::size_t element,
            cuda::Address row, bool packs) {
    bool moved = calls.ok();
    cuda::Packer packer(calls, cuda, stream, packs);
    each_part(side, begin, count, [&](const Piece& piece, std::size_t before) {
      moved = moved && packer.run(piece, row + before * element);
    });
    return moved;
  }
};

}  // namespace tutti::gpu
