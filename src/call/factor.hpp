#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include <tutti/arguments.hpp>
#include <tutti/tensor.hpp>

namespace tutti::call {

/// True if a factor for each element is given. A tensor without elements is one, a default-made
/// view is none.
[[nodiscard]] inline bool is_given(const TensorView& factors) noexcept {
  return factors.dims() > 0 || factors.count() > 0;
}

/// The factor of a PREMUL_SUM as its caller gave it: one number, or one for each element. Empty for
/// other operations.
class Factor {
 public:
  /// InvalidArgument where both are given, one is given for another op, or the number is none of
  /// the dtype's.
  Factor(ReduceOp op, DType dtype, std::optional<double> one, const TensorView& each);

  /// Valid as long as this object stays where it is.
  [[nodiscard]] TensorView view() noexcept;

 private:
  TensorView each_;
  DType dtype_;
  bool one_ = false;
  alignas(16) std::array<std::byte, 16> value_{};
};

}  // namespace tutti::call
