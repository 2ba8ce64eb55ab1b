#pragma once

#include <tutti/dtype.hpp>

#include "kernels/reduce.hpp"

namespace tutti::kernels {

/// For complex64 and complex128, in the float mode that the caller has put right; else nullptr.
/// The product takes at most 8 sources.
[[nodiscard]] ReduceFn find_complex_product(DType dtype) noexcept;
[[nodiscard]] ScaleFn find_complex_scale(DType dtype) noexcept;

}  // namespace tutti::kernels
