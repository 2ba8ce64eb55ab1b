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

/// Tells which tensors overlap in a call that is right otherwise. In place (a rank's own block is
/// the one tensor) is no overlap, nor are two inputs. Of outputs with strides it is not told
/// whether they overlap each other; against inputs they count as all bytes from their first element
/// to their last one.
[[nodiscard]] Overlap overlap_of(const Collective& call, int rank);

/// The mistake, where no other memory can stand in.
[[nodiscard]] std::string_view to_string(Overlap overlap) noexcept;

}  // namespace tutti
