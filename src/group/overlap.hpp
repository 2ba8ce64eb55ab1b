#pragma once

#include <cstddef>
#include <span>

#include <tutti/collective.hpp>

namespace tutti {

/// The bytes of two contiguous views have some in common. Views with strides are not judged.
[[nodiscard]] bool overlap(const TensorView& a, const TensorView& b) noexcept;

/// Something is written twice, or read that is written elsewhere. One piece of each side may be the
/// same memory: where it begins as many elements behind `own_output` in all outputs as behind
/// `own_input` in all inputs (in place: a rank's own block). Views with strides are not judged.
[[nodiscard]] bool overlap(std::span<const Piece> outputs, std::size_t own_output,
                           std::span<const Piece> inputs, std::size_t own_input);

}  // namespace tutti
