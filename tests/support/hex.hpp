#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti::test {

/// Bytes as vectors and pages write them.
inline std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

}  // namespace tutti::test
