#pragma once

#include <cstddef>

#include <tutti/collective.hpp>
#include <tutti/dtype.hpp>

namespace tutti::kernels {

/// dst[i] = the combination of sources[0..k-1][i] in the order of the lowest-bit binomial tree over
/// 0..k-1: ((0+1)+(2+3))+((4+5)+...); k=3: (0+1)+2; k=5: ((0+1)+(2+3))+4; k=6: ((0+1)+(2+3))+(4+5);
/// k=7: ((0+1)+(2+3))+((4+5)+6). One pass over memory, no allocation.
///
/// Sources:  k >= 1 of them, any alignment; k = 1 copies.
/// Aliases:  dst may be one of the sources; other overlaps are not allowed.
/// Bits:     the same on every CPU, whatever the count, alignment and place of an element, and the
///           caller's denormal and rounding modes. Integers wrap. bool holds 0 or 1. For floats and
///           k >= 2: MIN and MAX yield NaN when any value is NaN, and -0 < +0; every NaN result is
///           the positive quiet NaN without payload.
using ReduceFn = void (*)(void* dst, const void* const* sources, int k, std::size_t count);

/// The best kernel for this CPU; nullptr when the pair has no meaning here.
[[nodiscard]] ReduceFn find_reduce(ReduceOp op, DType dtype) noexcept;

/// The same results, for outputs that are not read again soon: large ones are written past the
/// cache. They are visible to others after the next release store, like ordinary writes.
[[nodiscard]] ReduceFn find_reduce_nt(ReduceOp op, DType dtype) noexcept;

}  // namespace tutti::kernels
