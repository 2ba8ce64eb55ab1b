#include "group/local_tensors.hpp"

#include <array>

#include "kernels/pack.hpp"
#include "kernels/reduce.hpp"

namespace tutti {
inline namespace v0 {

TensorView CpuTensors::make(DType dtype, std::size_t count) {
  made_.push_back(
      std::make_unique_for_overwrite<Line[]>(count * size_of(dtype) / sizeof(Line) + 1));
  return TensorView(made_.back().get(), dtype, count);
}

void CpuTensors::copy_in(const TensorView& row, const TensorView& view) {
  kernels::pack(row.data(), view, 0, view.count());
}

void CpuTensors::copy_out(const TensorView& view, const TensorView& row) {
  kernels::unpack(view, 0, view.count(), row.data());
}

void CpuTensors::combine(const TensorView& to, std::span<const TensorView> sources, ReduceOp op) {
  if (to.count() == 0) return;  // then they may have no memory
  std::array<const void*, kMostSources> all{};
  CpuTensors rows;
  int k = 0;
  for (const TensorView& source : sources) {
    TensorView row = source;
    if (!row.contiguous()) {
      row = rows.make(source.dtype(), source.count());
      rows.copy_in(row, source);
    }
    all[static_cast<std::size_t>(k++)] = row.data();
  }
  kernels::find_reduce(op, to.dtype())(to.data(), all.data(), k, to.count());
}

void CpuTensors::divide(const TensorView& row, std::int64_t divisor) {
  if (row.count() == 0) return;
  const void* const source = row.data();
  if (divisor > 1) kernels::find_average(row.dtype())(row.data(), &source, 1, row.count(), divisor);
}

void CpuTensors::keep_memory() noexcept {
  for (auto& one : made_) (void)one.release();
}

}  // namespace v0
}  // namespace tutti
