#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tutti/error.hpp>

// The head, which stands before the bytes of an object that travels (include/tutti/objects.hpp).
namespace tutti::base {

struct ObjectHead {
  std::uint64_t type = 0;  ///< hash of the name of its type
  std::uint64_t size = 0;  ///< bytes
  bool failed = false;     ///< the bytes are the reason why its sender could not make them
};

inline constexpr std::size_t kObjectHeadBytes = 24;

void write_object_head(const ObjectHead& head, std::span<std::byte, kObjectHeadBytes> out) noexcept;
/// Reads bytes of another rank. The error's text goes on with "... bytes that ".
[[nodiscard]] Result<ObjectHead> read_object_head(std::span<const std::byte> bytes);

}  // namespace tutti::base
