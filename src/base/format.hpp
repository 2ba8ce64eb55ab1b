#pragma once

#include <fmt/format.h>

#include <string>

namespace tutti::base {

/// fmt::vformat, compiled once: {fmt} is headers only, and a file that calls it compiles it all.
[[nodiscard]] std::string format_arguments(fmt::string_view text, fmt::format_args arguments);

/// fmt::format.
template <class... T>
[[nodiscard]] std::string format(fmt::format_string<T...> text, T&&... arguments) {
  return format_arguments(text, fmt::make_format_args(arguments...));
}

}  // namespace tutti::base
