#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::base {

/// How many letters to change, add or drop to get from one word to the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that `word` is most likely meant to be: one that begins with it, or the most
/// similar one if no more than a third of the letters differ. Nothing where none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string> known);

}  // namespace tutti::base
