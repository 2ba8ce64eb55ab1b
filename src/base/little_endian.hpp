#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Numbers as our formats have them: the lowest byte comes first.
namespace tutti::base {

/// As many bytes of the number as `to` has.
constexpr void put_number(std::span<std::byte> to, std::uint64_t value) noexcept {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

/// `from` has at most 8 bytes.
[[nodiscard]] constexpr std::uint64_t take_number(std::span<const std::byte> from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < from.size(); ++i)
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

}  // namespace tutti::base
