#include "cuda/packer.hpp"

namespace tutti::cuda {

bool Packer::run(const Piece& piece, Address dense) {
  const std::size_t element = size_of(piece.view.dtype());
  return each_run(piece, [&](const Run& run) {
    return copy(run.first, dense + run.before * element, element, run.count, run.step);
  });
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
