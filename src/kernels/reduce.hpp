#pragma once

#include <cstddef>
#include <cstdint>

#include <tutti/arguments.hpp>
#include <tutti/dtype.hpp>

namespace tutti::kernels {

/// True if the pair has a meaning: the table stands in docs/reference/semantics.md.
[[nodiscard]] bool is_supported(ReduceOp op, DType dtype) noexcept;

/// dst[i] = the combination of sources[0..k-1][i] in the order of the lowest-bit binomial tree over
/// 0..k-1: ((0+1)+(2+3))+((4+5)+...); k=3: (0+1)+2; k=5: ((0+1)+(2+3))+4; k=6: ((0+1)+(2+3))+(4+5);
/// k=7: ((0+1)+(2+3))+((4+5)+6). One pass over memory, no allocation.
///
/// Sources:  k >= 1 of them, any alignment; k = 1 copies, but bools become 0 or 1.
/// Aliases:  dst may be one of the sources; other overlaps are not allowed.
/// Bits:     the same on every CPU, whatever the count, alignment and place of an element, and the
///           caller's denormal and rounding modes. Integers wrap. Any bool but 0 is true. For
///           floats and k >= 2: MIN and MAX yield NaN when any value is NaN, and -0 < +0; every NaN
///           result is the one of quiet_nan_bits below, in each component of a complex number.
/// Narrow:   float16, bfloat16, float8: combined as float32, whatever k, and rounded once, to the
///           nearest, ties to even. A value that is too large becomes infinity, in
///           float8_e4m3 NaN.
/// Complex:  (a + bi)(c + di) = (ac - bd) + (ad + bc)i, every operation rounded.
using ReduceFn = void (*)(void* dst, const void* const* sources, int k, std::size_t count);

/// The best kernel for this CPU; nullptr when the pair has no meaning. AVG and PREMUL_SUM have none
/// of their own: their partial results are those of SUM; see find_average and find_scale.
[[nodiscard]] ReduceFn find_reduce(ReduceOp op, DType dtype) noexcept;

/// The same results, for outputs that are not read again soon: large ones are written past the
/// cache. They are visible to others after the next release store, like ordinary writes.
[[nodiscard]] ReduceFn find_reduce_nt(ReduceOp op, DType dtype) noexcept;

/// Like a SUM whose results are divided by `divisor` > 0, the number of ranks (k may be smaller,
/// when sources are partial results). Floats: the quotient rounds (narrow ones are still rounded
/// only once to their own width); complex: both components are divided. Integers: the sum wraps,
/// the quotient is cut towards zero. k = 1 divides as well, and its NaN become quiet_nan_bits.
using AverageFn = void (*)(void* dst, const void* const* sources, int k, std::size_t count,
                           std::int64_t divisor);

/// nullptr for bool.
[[nodiscard]] AverageFn find_average(DType dtype) noexcept;

/// dst[i] = src[i] * factor[i], or * factor[0] for all: what PREMUL_SUM does to the input of a rank
/// before the sum. Rounded like a product (for the narrow floats: computed as float32, rounded once
/// to their own width, and so once more than in a SUM); no multiply-and-add; integers wrap; NaN
/// become quiet_nan_bits. dst may be src, or the factors where there is one for each element.
using ScaleFn = void (*)(void* dst, const void* src, const void* factor, bool factor_for_each,
                         std::size_t count);

/// nullptr for bool.
[[nodiscard]] ScaleFn find_scale(DType dtype) noexcept;

/// The NaN that kernels yield: quiet, positive; 0 for what is no float. For complex dtypes, of a
/// component.
[[nodiscard]] constexpr std::uint64_t quiet_nan_bits(DType dtype) noexcept {
  switch (dtype) {
    case DType::float16: return 0x7e00;
    case DType::bfloat16: return 0x7fc0;
    case DType::float8_e4m3:
    case DType::float8_e5m2: return 0x7f;
    case DType::float32:
    case DType::complex64: return 0x7fc00000;
    case DType::float64:
    case DType::complex128: return 0x7ff8000000000000;
    default: return 0;
  }
}

}  // namespace tutti::kernels
