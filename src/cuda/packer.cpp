#include "cuda/packer.hpp"

#include <algorithm>

namespace tutti::cuda {

bool Packer::run(const Piece& piece, Address dense) {
  const TensorView& view = piece.view;
  const std::size_t element = size_of(view.dtype());
  const auto base = reinterpret_cast<Address>(view.data());
  if (view.contiguous())
    return copy(base + piece.first * element, dense, piece.count * element, 1, 0);
  // Rows along the last dimension; a piece may begin and end within one.
  const auto dims = static_cast<std::size_t>(view.dims());
  const auto length = static_cast<std::size_t>(view.shape()[dims - 1]);
  const std::int64_t step = view.strides()[dims - 1] * static_cast<std::int64_t>(element);
  std::size_t done = 0;
  while (done < piece.count) {
    const std::size_t at = piece.first + done;
    const std::size_t column = at % length;
    const std::size_t count = std::min(length - column, piece.count - done);
    Address strided = base + static_cast<Address>(static_cast<std::int64_t>(column) * step);
    std::size_t row = at / length;
    for (std::size_t d = dims - 1; d-- > 0;) {
      const auto size = static_cast<std::size_t>(view.shape()[d]);
      strided += static_cast<Address>(static_cast<std::int64_t>(row % size) * view.strides()[d] *
                                      static_cast<std::int64_t>(element));
      row /= size;
    }
    if (!copy(strided, dense + done * element, element, count, step)) return false;
    done += count;
  }
  return true;
}

bool Packer::copy(Address strided, Address dense, std::size_t width, std::size_t count,
                  std::int64_t step) {
  if (count == 1 || step == static_cast<std::int64_t>(width))
    return plain(strided, dense, width * count);
  // A pitch is at least the width: other steps (backwards, or none) take a copy for each element.
  if (step < static_cast<std::int64_t>(width)) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto offset = static_cast<Address>(static_cast<std::int64_t>(i) * step);
      if (!plain(strided + offset, dense + i * width, width)) return false;
    }
    return true;
  }
  Rows rows;
  rows.width = width;
  rows.rows = count;
  rows.from = packs_ ? strided : dense;
  rows.to = packs_ ? dense : strided;
  const auto pitch = static_cast<std::size_t>(step);
  rows.from_pitch = packs_ ? pitch : width;
  rows.to_pitch = packs_ ? width : pitch;
  return calls_.cuda("cuMemcpy2DAsync", cuda_.copy_rows(rows, stream_));
}

bool Packer::plain(Address strided, Address dense, std::size_t bytes) {
  if (bytes == 0) return true;
  return calls_.cuda("cuMemcpyAsync", cuda_.copy(packs_ ? dense : strided, packs_ ? strided : dense,
                                                 bytes, stream_));
}

}  // namespace tutti::cuda
