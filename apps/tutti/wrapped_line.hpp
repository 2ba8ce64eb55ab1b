#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::cli {

/// The last column of a table, broken at blanks so that no line is longer than `columns`; 0: not
/// broken. Its lines stand below each other behind `head`, or 8 columns in where little room is
/// left.
inline std::string wrapped_line(std::string_view head, std::string_view text, std::size_t columns) {
  constexpr std::size_t kLeast = 30;
  constexpr std::size_t kIndent = 8;
  std::string out(head);
  const bool beside = columns == 0 || head.size() + kLeast <= columns;
  const std::size_t indent = beside ? head.size() : kIndent;
  if (!beside && head.size() + text.size() > columns) out += '\n' + std::string(indent, ' ');
  const std::size_t room = columns > indent ? columns - indent : kLeast;
  while (columns != 0 && text.size() > room) {
    std::size_t end = text.rfind(' ', room);
    if (end == std::string_view::npos || end == 0) end = text.find(' ', room);
    if (end == std::string_view::npos) break;  // one long word
    out += std::string(text.substr(0, end)) + '\n' + std::string(indent, ' ');
    text.remove_prefix(end + 1);
  }
  return out + std::string(text) + '\n';
}

}  // namespace tutti::cli
