#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "secure/handshake.hpp"

namespace tutti::store {

using secure::kUnorderedGeneration;

/// The secret that a store and its users prove to each other. All of it must outlive its use.
struct Credentials {
  std::span<const std::byte> secret = {};
  std::string_view job = {};  ///< tells jobs apart that meet by mistake
  std::uint32_t generation = 0;
  bool encrypts = false;         ///< needs a secret
  std::string_view source = {};  ///< of the secret: JobSecret::source

  [[nodiscard]] secure::Party party() const noexcept {
    std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
    for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return {0, 1, hash, generation, secret, encrypts, secure::Purpose::store, source};
  }
};

}  // namespace tutti::store
