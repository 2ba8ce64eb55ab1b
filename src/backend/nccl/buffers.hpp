#pragma once

#include <cstddef>
#include <vector>

#include <tutti/backend/collective.hpp>

#include "backend/nccl/calls.hpp"

namespace tutti::nccl {

/// One side of a call as NCCL takes it: its elements in a row. The caller's own memory where they
/// lie so already, else a copy on the device, packed and unpacked on the stream.
class Buffer {
 public:
  /// Reads the caller's lists; allocates nothing on the device.
  void take_input(const Collective& call);
  void take_output(const Collective& call);
  void reset() noexcept {
    pieces_.clear();
    data_ = 0;
    bytes_ = 0;
  }

  /// Makes the copy, if there must be one; `fill`: with the elements.
  bool make_copy(Calls& calls, CudaApi& cuda, Stream stream, bool fill);
  /// To the caller's memory, if it is a copy.
  bool write_back(Calls& calls, CudaApi& cuda, Stream stream) const;
  /// In the order of the stream.
  bool free_copy(Calls& calls, CudaApi& cuda, Stream stream);

  [[nodiscard]] Address data() const noexcept { return data_; }

 private:
  void take(const TensorView& whole, std::span<const TensorView> views,
            std::span<const Piece> pieces);

  std::vector<Piece> pieces_;  ///< what a copy is made of; none: it is the caller's memory
  Address data_ = 0;
  std::size_t bytes_ = 0;
  bool copied_ = false;
};

}  // namespace tutti::nccl
