#pragma once

#include <string_view>

#include <tutti/collective.hpp>

namespace tutti {

/// Memory that a call writes and that it uses a second time.
enum class Overlap : unsigned char {
  none,
  input,   ///< something is read that is written elsewhere
  output,  ///< something is written twice
};

/// Finds tensors that overlap in a call that is correct otherwise. A call in place (this rank's own
/// block is input and output) is no overlap, nor are two inputs. Outputs with strides are not
/// compared with each other; against inputs they count as all bytes from their first element to
/// their last one.
[[nodiscard]] Overlap overlap_of(const Collective& call, int rank);

/// The error text, for callers that cannot use a copy instead.
[[nodiscard]] std::string_view to_string(Overlap overlap) noexcept;

}  // namespace tutti
