#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

// Numbers that a user has written: in variables, options and addresses.
namespace tutti::base {

/// The text without blanks at its ends, which YAML and the `read` of shells leave there. Those that
/// Python's int() takes, too.
[[nodiscard]] constexpr std::string_view without_blanks(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// A whole number in decimal digits, with blanks around it; absent if it is anything else, or T
/// cannot hold it.
template <std::integral T = int>
[[nodiscard]] std::optional<T> whole_number(std::string_view text) noexcept {
  text = without_blanks(text);
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// A number such as 2, 0.5, 1e-3 or inf, with blanks around it. The locale of the program does not
/// matter.
[[nodiscard]] std::optional<double> real_number(std::string_view text);

}  // namespace tutti::base
