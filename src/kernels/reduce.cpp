#include "kernels/reduce.hpp"

#include "kernels/reduce_find.hpp"

namespace tutti::kernels {
namespace {

// On 0 and 1, the arithmetic of truth values is that of single bits.
ReducePair find_for_bool(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor: return find_bor(DType::uint8);
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band: return find_band(DType::uint8);
    case ReduceOp::bxor: return find_bxor(DType::uint8);
    case ReduceOp::avg:
    case ReduceOp::premul_sum: break;
  }
  return {};
}

ReducePair find(ReduceOp op, DType dtype) noexcept {
  if (dtype == DType::bool_) return find_for_bool(op);
  switch (op) {
    case ReduceOp::sum: return find_sum(dtype);
    case ReduceOp::product: return find_product(dtype);
    case ReduceOp::min: return find_min(dtype);
    case ReduceOp::max: return find_max(dtype);
    case ReduceOp::band: return find_band(dtype);
    case ReduceOp::bor: return find_bor(dtype);
    case ReduceOp::bxor: return find_bxor(dtype);
    case ReduceOp::avg:
    case ReduceOp::premul_sum: break;
  }
  return {};
}

}  // namespace

ReduceFn find_reduce(ReduceOp op, DType dtype) noexcept { return find(op, dtype).plain; }

ReduceFn find_reduce_nt(ReduceOp op, DType dtype) noexcept { return find(op, dtype).streaming; }

}  // namespace tutti::kernels
