#pragma once

#include <tutti/dtype.hpp>

#include "kernels/reduce.hpp"

namespace tutti::kernels {

/// Both forms of a kernel; both null where there is none.
struct ReducePair {
  ReduceFn plain = nullptr;
  ReduceFn streaming = nullptr;
};

/// One source file each, so that they compile side by side. bool is not known here.
[[nodiscard]] ReducePair find_sum(DType dtype) noexcept;
[[nodiscard]] ReducePair find_product(DType dtype) noexcept;
[[nodiscard]] ReducePair find_min(DType dtype) noexcept;
[[nodiscard]] ReducePair find_max(DType dtype) noexcept;
[[nodiscard]] ReducePair find_band(DType dtype) noexcept;
[[nodiscard]] ReducePair find_bor(DType dtype) noexcept;
[[nodiscard]] ReducePair find_bxor(DType dtype) noexcept;

}  // namespace tutti::kernels
