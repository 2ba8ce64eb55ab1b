#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <tutti/arguments.hpp>
#include <tutti/dtype.hpp>

namespace tutti::cuda::kernels {

/// A kernel of reduce.cu.
struct Kernel {
  std::string name;           ///< "tutti_sum_float32"
  std::size_t per_count = 1;  ///< of its elements for each element of the dtype
};

/// The kernel of a reduction; absent: there is none, as of PREMUL_SUM and of pairs without a
/// meaning. Its results have the bits of find_reduce (src/kernels/reduce.hpp), those of AVG the
/// ones of find_average. But for AVG and bool, one source would have to be copied as it is.
[[nodiscard]] std::optional<Kernel> kernel_of(ReduceOp op, DType dtype);

/// The kernel that multiplies elements by their factors; absent for bool. Its results have the bits
/// of find_scale (src/kernels/reduce.hpp).
[[nodiscard]] std::optional<Kernel> scale_kernel_of(DType dtype);

/// All kernels, for the driver (a fatbin); empty: the library was built without nvcc.
[[nodiscard]] std::span<const std::byte> image() noexcept;

}  // namespace tutti::cuda::kernels
