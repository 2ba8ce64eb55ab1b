#pragma once

#include <cstddef>

#include <tutti/tensor.hpp>

namespace tutti::kernels {

/// Copies the elements [first, first + count) of a view, in row-major order of its shape, to
/// contiguous memory. Strides may be negative, zero or overlapping. No allocation.
/// Requires: first + count <= src.count(); dst does not overlap the view.
void pack(void* dst, const TensorView& src, std::size_t first, std::size_t count) noexcept;

/// The reverse: writes contiguous memory to the elements [first, first + count) of a view. Where
/// elements of the view share memory, the last one stays.
void unpack(const TensorView& dst, std::size_t first, std::size_t count, const void* src) noexcept;

}  // namespace tutti::kernels
