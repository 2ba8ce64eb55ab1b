#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <tutti/tensor.hpp>

namespace tutti::python {

/// The reason if an array's shape and strides cannot be true.
inline constexpr const char* kBeyondMemory =
    "has a shape or strides that reach further than memory does";

/// Makes the view of a foreign array with the fewest dimensions: dimensions of one element vanish,
/// adjacent ones are merged. `strides` count units of `unit` bytes; empty: row-major. Returns
/// false, with the reason in `why`, if tutti cannot use the array in place, or if pointer, shape
/// and strides cannot be true.
[[nodiscard]] bool make_view(void* data, DType dtype, std::span<const std::int64_t> shape,
                             std::span<const std::int64_t> strides, std::int64_t unit,
                             Device device, TensorView& view, std::string& why);

}  // namespace tutti::python
