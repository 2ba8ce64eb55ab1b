#pragma once

#include <cstddef>
#include <cstdint>

#include <tutti/collective.hpp>

#include "cuda/calls.hpp"

namespace tutti::cuda {

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
