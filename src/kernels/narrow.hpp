#pragma once

#include <cstddef>

#include <tutti/dtype.hpp>

namespace tutti::kernels {

/// float16, bfloat16, float8_e4m3 (finite up to 448, no infinities) and float8_e5m2.
[[nodiscard]] constexpr bool is_narrow(DType dtype) noexcept {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float8_e4m3 ||
         dtype == DType::float8_e5m2;
}

/// Converts `count` elements, any alignment, no overlap. The caller has set the float mode.
using ConvertFn = void (*)(void* to, const void* from, std::size_t count);

/// Converts to float32: exact; a NaN stays a NaN. nullptr for a dtype that is not narrow.
[[nodiscard]] ConvertFn find_widen(DType dtype) noexcept;

/// Converts from float32: to the nearest, ties to even; a value that is too large becomes infinity,
/// in float8_e4m3 NaN; NaN becomes quiet_nan_bits. nullptr for a dtype that is not narrow.
[[nodiscard]] ConvertFn find_narrow(DType dtype) noexcept;

/// dst[0..count) = the sum of sources[j][first..first + count), 2 to 8 of them, added as float32 in
/// the order of ReduceFn and rounded once. Each source is read once, and nothing is buffered. `dst`
/// may be such a part of a source. The caller has put the float mode right.
using NarrowSumFn = void (*)(void* dst, const void* const* sources, int k, std::size_t first,
                             std::size_t count);

/// nullptr for what is not float16 or bfloat16.
[[nodiscard]] NarrowSumFn find_narrow_sum(DType dtype) noexcept;

}  // namespace tutti::kernels
