#pragma once

#include <cstddef>
#include <string_view>

// Text in UTF-8 as a terminal takes it.
namespace tutti::launcher {

/// Length of the escape sequence (colours, cursor movements, links, titles) that `text` begins
/// with; 0: none. One that has no end yet goes to the end of the text.
[[nodiscard]] std::size_t escape_length(std::string_view text) noexcept;

/// The first character of a text.
struct Character {
  std::size_t bytes = 1;
  int columns = 1;  ///< never too few: where terminals differ, the wider. 0: shows nothing
};

/// The character that `text`, which is not empty, begins with. Control characters have no columns;
/// a byte that is no UTF-8 has one.
[[nodiscard]] Character first_character(std::string_view text) noexcept;

/// True if the text shows anything but blanks.
[[nodiscard]] bool has_visible_text(std::string_view text) noexcept;

}  // namespace tutti::launcher
