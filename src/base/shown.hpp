#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Texts for people that hold what others gave: names, keys, values, reasons. Such bytes may be
// anything, and a message that is not UTF-8 cannot be shown by its receiver (Python refuses it).
namespace tutti::base {

/// The beginning of a text in UTF-8: at most `most` bytes, none of a character that does not fit
/// whole. Bytes that are no UTF-8 stay as they are.
[[nodiscard]] std::string_view cut(std::string_view text, std::size_t most) noexcept;

/// The text for a message: `cut` to `most` bytes, then each byte that is no UTF-8 as \xHH, so the
/// result is UTF-8, of at most 4 * `most` bytes.
[[nodiscard]] std::string shown(std::string_view text, std::size_t most = std::string_view::npos);

/// As `shown`, for a line on a terminal: control characters, line ends among them, as \xHH too.
[[nodiscard]] std::string shown_on_line(std::string_view text,
                                        std::size_t most = std::string_view::npos);

/// As `shown_on_line`, but cut behind a word, with " ..." where the text goes on. Only a word that
/// alone is longer than `most` is cut itself.
[[nodiscard]] std::string shown_words(std::string_view text, std::size_t most);

}  // namespace tutti::base
