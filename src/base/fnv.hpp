#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// FNV-1a (Fowler, Noll, Vo). Its results travel and are kept in files: they never change.
namespace tutti::base {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325;

/// One step: of a byte in FNV-1a itself, or of a number in its place.
[[nodiscard]] constexpr std::uint64_t fnv_add(std::uint64_t hash, std::uint64_t value) noexcept {
  return (hash ^ value) * 0x100000001b3;
}

[[nodiscard]] constexpr std::uint64_t fnv_of(std::string_view text) noexcept {
  std::uint64_t hash = kFnvBasis;
  for (const char c : text) hash = fnv_add(hash, static_cast<unsigned char>(c));
  return hash;
}

/// The hash of 32 bits.
[[nodiscard]] constexpr std::uint32_t fnv32_of(std::span<const std::byte> bytes) noexcept {
  std::uint32_t hash = 0x811c9dc5;
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<std::uint32_t>(byte)) * 0x01000193;
  return hash;
}

}  // namespace tutti::base
