#pragma once

#include <cstddef>
#include <cstdint>

// The tag that epoll returns with an event.
namespace tutti::transport {

enum class Watched : unsigned char { listener, timer, connection, pending };

// Bits 62-63: kind; 32-61: rank or slot; 0-31: generation. A descriptor's number may be given out
// again while an event of its predecessor is still on its way; the generation tells them apart.
constexpr std::uint64_t make_tag(Watched kind, std::size_t index,
                                 std::uint32_t generation) noexcept {
  return (static_cast<std::uint64_t>(kind) << 62) | (static_cast<std::uint64_t>(index) << 32) |
         generation;
}
constexpr Watched tag_kind(std::uint64_t tag) noexcept { return static_cast<Watched>(tag >> 62); }
constexpr std::size_t tag_index(std::uint64_t tag) noexcept {
  return static_cast<std::size_t>((tag >> 32) & 0x3fffffffU);
}
constexpr std::uint32_t tag_generation(std::uint64_t tag) noexcept {
  return static_cast<std::uint32_t>(tag);
}

}  // namespace tutti::transport
