#include "kernels/reduce.hpp"

#include <cstring>

#include "kernels/blocked.hpp"
#include "kernels/complex.hpp"
#include "kernels/narrow.hpp"
#include "kernels/reduce_find.hpp"

namespace tutti::kernels {
namespace {

/// For dtypes that are their own partial results.
ReducePair find_plain(ReduceOp op, DType dtype) noexcept {
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

/// Any byte but 0 is true and becomes 1.
void truth(void* to, const void* from, std::size_t count) {
  auto* const out = static_cast<unsigned char*>(to);
  const auto* const in = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i] != 0 ? 1 : 0;
}

/// On 0 and 1, the arithmetic of truth values is that of single bits.
ReduceOp bits_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max: return ReduceOp::bor;
    case ReduceOp::product:
    case ReduceOp::min: return ReduceOp::band;
    default: return op;
  }
}

template <ReduceOp kOp, DType kType>
BlockedReduction blocked() noexcept {
  constexpr std::size_t kSize = size_of(kType);
  if constexpr (kType == DType::bool_) {
    const ReduceFn combine = find_plain(bits_of(kOp), DType::uint8).plain;
    return {.prepare = &truth, .combine = combine};
  } else if constexpr (is_narrow(kType)) {
    return {.outer = kSize,
            .inner = sizeof(float),
            .prepare = find_widen(kType),
            .combine = find_plain(kOp, DType::float32).plain,
            .finish = find_narrow(kType),
            .floats = true,
            .few = kOp == ReduceOp::sum ? find_narrow_sum(kType) : nullptr};
  } else {
    static_assert(kOp == ReduceOp::product && size_of(kType) >= 8);
    const ReduceFn combine = find_complex_product(kType);
    return {.outer = kSize, .inner = kSize, .combine = combine, .floats = true};
  }
}

template <ReduceOp kOp, DType kType, bool kNonTemporal>
void reduce_in_blocks(void* dst, const void* const* sources, int k, std::size_t count) {
  if (k == 1 && kType != DType::bool_) {
    if (count > 0) std::memmove(dst, sources[0], count * size_of(kType));
  } else if (kNonTemporal) {
    reduce_blocked_nt(blocked<kOp, kType>(), {dst, sources, k, count});
  } else {
    reduce_blocked(blocked<kOp, kType>(), {dst, sources, k, count});
  }
}

template <ReduceOp kOp, DType kType>
ReducePair in_blocks() noexcept {
  return {&reduce_in_blocks<kOp, kType, false>, &reduce_in_blocks<kOp, kType, true>};
}

template <DType kType>
ReducePair find_narrow_reduction(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum: return in_blocks<ReduceOp::sum, kType>();
    case ReduceOp::product: return in_blocks<ReduceOp::product, kType>();
    case ReduceOp::min: return in_blocks<ReduceOp::min, kType>();
    case ReduceOp::max: return in_blocks<ReduceOp::max, kType>();
    default: return {};
  }
}

ReducePair find_for_bool(ReduceOp op) noexcept {
  switch (bits_of(op)) {
    case ReduceOp::bor: return in_blocks<ReduceOp::bor, DType::bool_>();
    case ReduceOp::band: return in_blocks<ReduceOp::band, DType::bool_>();
    case ReduceOp::bxor: return in_blocks<ReduceOp::bxor, DType::bool_>();
    default: return {};
  }
}

/// Both components are added like so many floats.
template <DType kComponent, bool kNonTemporal>
void add_complex(void* dst, const void* const* sources, int k, std::size_t count) {
  const ReducePair sum = find_sum(kComponent);
  (kNonTemporal ? sum.streaming : sum.plain)(dst, sources, k, 2 * count);
}

template <DType kType, DType kComponent>
ReducePair find_for_complex(ReduceOp op) noexcept {
  if (op == ReduceOp::sum) return {&add_complex<kComponent, false>, &add_complex<kComponent, true>};
  if (op == ReduceOp::product) return in_blocks<ReduceOp::product, kType>();
  return {};
}

ReducePair find(ReduceOp op, DType dtype) noexcept {
  switch (dtype) {
    case DType::bool_: return find_for_bool(op);
    case DType::float16: return find_narrow_reduction<DType::float16>(op);
    case DType::bfloat16: return find_narrow_reduction<DType::bfloat16>(op);
    case DType::float8_e4m3: return find_narrow_reduction<DType::float8_e4m3>(op);
    case DType::float8_e5m2: return find_narrow_reduction<DType::float8_e5m2>(op);
    case DType::complex64: return find_for_complex<DType::complex64, DType::float32>(op);
    case DType::complex128: return find_for_complex<DType::complex128, DType::float64>(op);
    default: return find_plain(op, dtype);
  }
}

}  // namespace

bool is_supported(ReduceOp op, DType dtype) noexcept {
  if (op == ReduceOp::avg || op == ReduceOp::premul_sum) {
    return dtype != DType::bool_ && find(ReduceOp::sum, dtype).plain != nullptr;
  }
  return find(op, dtype).plain != nullptr;
}

ReduceFn find_reduce(ReduceOp op, DType dtype) noexcept { return find(op, dtype).plain; }

ReduceFn find_reduce_nt(ReduceOp op, DType dtype) noexcept { return find(op, dtype).streaming; }

}  // namespace tutti::kernels
