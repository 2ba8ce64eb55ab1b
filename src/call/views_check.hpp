#pragma once

#include <string>
#include <string_view>

#include <tutti/tensor.hpp>

namespace tutti::call {

/// Several elements of the view share memory (a stride of 0, rows that overlap): what is written
/// there would be read as input again, or hold whichever came last.
[[nodiscard]] bool overlaps_itself(const TensorView& view) noexcept;

/// Why a view cannot be in one call with `like`: another dtype or device; empty: it can. `name` is
/// how the view is called: "input".
[[nodiscard]] std::string check_alike(const TensorView& view, std::string_view name,
                                      const TensorView& like);

/// Describes the mistake in the memory of a view that is read or written; empty: none. `name` is
/// how it is called: "input".
[[nodiscard]] std::string check_memory(const TensorView& view, std::string_view name, bool written);

}  // namespace tutti::call
