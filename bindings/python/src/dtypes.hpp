#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <optional>
#include <string_view>

#include <tutti/dtype.hpp>

// The dtypes of other libraries, as tutti's. Absent: tutti has no such dtype.
namespace tutti::python {

/// A format of the buffer protocol (struct's letters, and "Zf", "Zd"), e.g. "<f".
[[nodiscard]] std::optional<DType> dtype_of_format(std::string_view format,
                                                   std::size_t item_bytes) noexcept;
/// A NumPy dtype's name, of the extension types that have no format: "bfloat16", "float8_e4m3fn".
[[nodiscard]] std::optional<DType> dtype_of_name(std::string_view name) noexcept;
[[nodiscard]] std::optional<DType> dtype_of_dlpack(const nanobind::dlpack::dtype& type) noexcept;

}  // namespace tutti::python
