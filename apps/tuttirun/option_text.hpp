#pragma once

#include <CLI/Error.hpp>
#include <algorithm>
#include <string>
#include <string_view>

namespace tutti::launcher {

/// The fault of an option, in one line; CLI11 says it in its own terms.
inline std::string option_text(const CLI::ParseError& error) {
  std::string text = error.what();
  std::ranges::replace(text, '\n', ' ');
  constexpr std::string_view kConversion = "Could not convert: ";
  if (const std::size_t value = text.find(" = ");
      text.starts_with(kConversion) && value != std::string::npos) {
    return text.substr(kConversion.size(), value - kConversion.size()) + " is \"" +
           text.substr(value + 3) + "\"; it must be a number";
  }
  if (text.ends_with(" missing") && text.find(" required ") != std::string::npos)
    return text.substr(0, text.find(':')) + " needs a value";
  return text;
}

}  // namespace tutti::launcher
