#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <tutti/tensor.hpp>

namespace tutti::python {

/// Why an array cannot be used: whatever its shape and strides say, it cannot be so.
inline constexpr const char* kBeyondMemory =
    "has a shape or strides that reach further than memory does";

/// The view of a foreign array with as few dimensions as will do: those of one element vanish,
/// those that lie next to each other become one. `strides` count units of `unit` bytes; empty:
/// row-major. False, and `why` says it for people, where tutti cannot use it in place, also because
/// it cannot be: foreign code may have made up its pointer, shape and strides.
[[nodiscard]] bool make_view(void* data, DType dtype, std::span<const std::int64_t> shape,
                             std::span<const std::int64_t> strides, std::int64_t unit,
                             Device device, TensorView& view, std::string& why);

}  // namespace tutti::python
