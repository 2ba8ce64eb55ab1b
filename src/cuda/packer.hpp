#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tutti/backend/collective.hpp>

#include "cuda/calls.hpp"

namespace tutti::cuda {

/// Elements of a view that lie one step apart.
struct Run {
  Address first = 0;
  std::size_t count = 0;
  std::int64_t step = 0;   ///< bytes
  std::size_t before = 0;  ///< elements of the piece before these
};

/// The piece as few runs along the last dimension; it may begin and end within one. `look(run)` is
/// false to stop. False: it did.
template <class Look>
bool each_run(const Piece& piece, const Look& look) {
  const TensorView& view = piece.view;
  const auto element = static_cast<std::int64_t>(size_of(view.dtype()));
  const auto base = reinterpret_cast<Address>(view.data());
  const auto moved = [&](Address from, std::size_t steps, std::int64_t step) {
    return from + static_cast<Address>(static_cast<std::int64_t>(steps) * step);
  };
  if (view.contiguous())
    return look(Run{moved(base, piece.first, element), piece.count, element, 0});
  const auto dims = static_cast<std::size_t>(view.dims());
  const auto length = static_cast<std::size_t>(view.shape()[dims - 1]);
  const std::int64_t step = view.strides()[dims - 1] * element;
  std::size_t done = 0;
  while (done < piece.count) {
    const std::size_t at = piece.first + done;
    const std::size_t column = at % length;
    const std::size_t count = std::min(length - column, piece.count - done);
    Address first = moved(base, column, step);
    std::size_t row = at / length;
    for (std::size_t d = dims - 1; d-- > 0;) {
      const auto size = static_cast<std::size_t>(view.shape()[d]);
      first = moved(first, row % size, view.strides()[d] * element);
      row /= size;
    }
    if (!look(Run{first, count, step, done})) return false;
    done += count;
  }
  return true;
}

/// Copies elements of a view on a GPU to memory in a row, or back, in the order of a stream: as few
/// rows of a 2-D copy as the view's innermost dimensions allow. The row is on the GPU or on the
/// host.
class Packer {
 public:
  /// `packs`: to the row; else from it.
  Packer(Calls& calls, CudaApi& cuda, Stream stream, bool packs)
      : calls_(calls), cuda_(cuda), stream_(stream), packs_(packs) {}

  /// False: a function has failed; `calls` says which.
  bool run(const Piece& piece, Address dense);

 private:
  /// `count` runs of `width` bytes; the strided ones lie `step` bytes apart.
  bool copy(Address strided, Address dense, std::size_t width, std::size_t count,
            std::int64_t step);
  bool plain(Address strided, Address dense, std::size_t bytes);

  Calls& calls_;
  CudaApi& cuda_;
  Stream stream_;
  bool packs_;
};

}  // namespace tutti::cuda
