#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fnv.hpp"
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
    return {0, 1, base::fnv_of(job), generation, secret, encrypts, secure::Purpose::store, source};
  }
};

}  // namespace tutti::store
