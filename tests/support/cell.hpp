#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::test {

/// An element of any dtype of so many bytes that is only moved: bits that follow from a number.
/// Payloads of NaN and other bytes of bool than 0 and 1 are among them, and must arrive as they
/// are.
template <std::size_t kBytes>
struct alignas(kBytes) Cell {
  Cell() = default;
  explicit Cell(double number) {
    auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(number)) + 1;
    for (std::uint8_t& byte : bytes) {
      bits = bits * 6364136223846793005U + 1442695040888963407U;
      byte = static_cast<std::uint8_t>(bits >> 56);
    }
  }
  bool operator==(const Cell&) const = default;

  std::array<std::uint8_t, kBytes> bytes{};
};

}  // namespace tutti::test
