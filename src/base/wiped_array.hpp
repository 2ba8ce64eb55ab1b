#pragma once

#include <string.h>

#include <array>
#include <cstddef>

namespace tutti::base {

/// Bytes of a secret on the stack, on their way into SecretBytes: wiped at the end.
template <std::size_t size>
struct WipedArray : std::array<std::byte, size> {
  WipedArray() noexcept : std::array<std::byte, size>{} {}
  ~WipedArray() { ::explicit_bzero(this->data(), size); }
  WipedArray(const WipedArray&) = delete;
  WipedArray& operator=(const WipedArray&) = delete;
};

}  // namespace tutti::base
