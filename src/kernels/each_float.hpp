#pragma once

#include <cstddef>
#include <cstdint>

#include <tutti/dtype.hpp>

#include "kernels/reduce.hpp"

namespace tutti::kernels {

/// to[i] = from[i] / divisor; `to` may be `from`.
using DivideFn = void (*)(void* to, const void* from, std::size_t count, std::int64_t divisor);

/// For float32 and float64, in the float mode that the caller has put right; else nullptr. Every
/// NaN becomes quiet_nan_bits.
[[nodiscard]] DivideFn find_divide_float(DType dtype) noexcept;
[[nodiscard]] ScaleFn find_scale_float(DType dtype) noexcept;

}  // namespace tutti::kernels
