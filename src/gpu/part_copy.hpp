#pragma once

#include <algorithm>
#include <cstddef>

#include "call/call_side.hpp"
#include "cuda/packer.hpp"

namespace tutti::staged {

/// Calls `look` for the tensors that elements [begin, begin + count) of a side lie in, also with
/// how many of these come before.
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

/// Copies elements between the caller's tensors and memory in a row, in the order of a stream.
struct PartCopy {
  cuda::Calls& calls;
  cuda::CudaApi& cuda;
  cuda::Stream stream;

  /// Elements [begin, begin + count) of a side; `packs`: to the row, else from it. False: `calls`
  /// says why.
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

}  // namespace tutti::staged
