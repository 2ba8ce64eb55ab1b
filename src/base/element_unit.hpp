#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tutti/tensor.hpp>

#include "base/format.hpp"

namespace tutti::base {

/// The unit in which error texts count: the elements of the caller, which may be structs.
struct ElementUnit {
  std::size_t size = 1;  ///< of the view's elements
  std::string_view name = "elements";
};

[[nodiscard]] inline ElementUnit unit_of(const TensorView& view) noexcept {
  return {view.struct_size(), "elements"};
}

/// For a text that compares counts of two views: bytes where the two have different structs.
[[nodiscard]] inline ElementUnit unit_of(const TensorView& one, const TensorView& other) noexcept {
  if (one.struct_size() == other.struct_size()) return unit_of(one);
  return {1, "bytes"};
}

/// For a text that compares a count of another rank with ours: bytes where it is no whole number of
/// our structs.
[[nodiscard]] inline ElementUnit unit_of(const TensorView& view, std::size_t ours,
                                         std::size_t theirs) noexcept {
  const std::size_t size = view.struct_size();
  if (ours % size == 0 && theirs % size == 0) return unit_of(view);
  return {1, "bytes"};
}

/// "float32 x 12", "struct of 24 bytes x 4".
[[nodiscard]] inline std::string elements_text(const TensorView& view) {
  const std::size_t size = view.struct_size();
  if (size == 1) return base::format("{} x {}", to_string(view.dtype()), view.count());
  return base::format("struct of {} bytes x {}", size, view.count() / size);
}

}  // namespace tutti::base
