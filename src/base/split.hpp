#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace tutti::base {

/// The parts of a text between separators, empty ones too; at least one.
[[nodiscard]] inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace tutti::base
