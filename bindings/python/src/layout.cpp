#include "layout.hpp"

#include <array>
#include <cstddef>

namespace tutti::python {
namespace {

// The alignment that arithmetic needs; that of a complex number is its float's.
std::size_t alignment_of(DType dtype) noexcept {
  return dtype == DType::complex64 || dtype == DType::complex128 ? size_of(dtype) / 2
                                                                 : size_of(dtype);
}

// Adds `span`, of either sign, to a negative sum of bytes. False: overflow.
bool count_down(std::int64_t& below, std::int64_t span) noexcept {
  return span < 0 ? !__builtin_add_overflow(below, span, &below)
                  : !__builtin_sub_overflow(below, span, &below);
}

}  // namespace

bool make_view(void* data, DType dtype, std::span<const std::int64_t> shape,
               std::span<const std::int64_t> strides, std::int64_t unit, Device device,
               TensorView& view, std::string& why) {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t size = bytes;  // of all elements
  bool empty = false;
  bool too_large = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      why = "has a shape with a negative extent (" + std::to_string(extent) + ")";
      return false;
    }
    empty = empty || extent == 0;
    too_large = __builtin_mul_overflow(size, extent, &size) || too_large;
  }
  if (empty) {
    view = TensorView(data, dtype, 0, device);
    return true;
  }
  if (too_large) {
    why = kBeyondMemory;
    return false;
  }
  if (reinterpret_cast<std::uintptr_t>(data) % alignment_of(dtype) != 0) {
    why = "does not lie at an address that suits its elements; pass a copy";
    return false;
  }
  std::array<std::int64_t, kMaxDims> kept{};
  std::array<std::int64_t, kMaxDims> steps{};  // bytes
  std::size_t dims = 0;
  std::int64_t reach = 0;  // how far strides lead from the first element at most, below 0
  for (std::size_t d = 0; d < shape.size() && !strides.empty(); ++d) {
    if (shape[d] == 1) continue;
    std::int64_t step = 0;
    std::int64_t span = 0;
    if (__builtin_mul_overflow(strides[d], unit, &step) ||
        __builtin_mul_overflow(step, shape[d], &span) || !count_down(reach, span)) {
      why = kBeyondMemory;
      return false;
    }
    if (step % bytes != 0) {
      why = "has strides that are no multiple of its elements' size; pass a copy";
      return false;
    }
    if (dims > 0 && steps[dims - 1] == span) {
      kept[dims - 1] *= shape[d];
      steps[dims - 1] = step;
      continue;
    }
    if (dims == kept.size()) {
      why = "has more than " + std::to_string(kMaxDims) +
            " dimensions that do not lie next to each other; pass a contiguous copy";
      return false;
    }
    kept[dims] = shape[d];
    steps[dims] = step;
    ++dims;
  }
  if (dims == 0 || (dims == 1 && steps[0] == bytes)) {
    view = TensorView(data, dtype, static_cast<std::size_t>(size / bytes), device);
    return true;
  }
  for (std::size_t d = 0; d < dims; ++d) steps[d] /= bytes;
  view = TensorView(data, dtype, std::span<const std::int64_t>(kept.data(), dims),
                    std::span<const std::int64_t>(steps.data(), dims), device);
  return true;
}

}  // namespace tutti::python
