#pragma once

#include <string>
#include <string_view>

#include <tutti/tensor.hpp>

namespace tutti {

/// Several elements of the view share memory (a stride of 0): what is written there would hold
/// whichever came last.
[[nodiscard]] bool overlaps_itself(const TensorView& view) noexcept;

/// What is wrong with the memory of a view that is read or written; empty: nothing. `name` is how
/// it is called: "input".
[[nodiscard]] std::string check_memory(const TensorView& view, std::string_view name, bool written);

}  // namespace tutti
