#pragma once

#include <string_view>

#include <tutti/backend/collective.hpp>

namespace tutti {
inline namespace v0 {

/// Memory that a call writes and also uses otherwise.
enum class Overlap : unsigned char {
  none,
  input,   ///< something is read that is written elsewhere
  output,  ///< something is written twice
};

/// True if one tensor is input and output of an operation on all elements.
[[nodiscard]] bool is_in_place(const Collective& call) noexcept;

/// Finds overlapping tensors in a call that is correct otherwise. A call in place (this rank's own
/// block is input and output) does not count, nor do two inputs. Outputs with strides are not
/// compared with each other; compared with inputs, they span all bytes from their first to their
/// last element.
[[nodiscard]] Overlap overlap_of(const Collective& call, int rank);

/// The error text for calls that cannot use a copy instead.
[[nodiscard]] std::string_view to_string(Overlap overlap) noexcept;

}  // namespace v0
}  // namespace tutti
