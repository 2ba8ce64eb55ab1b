#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <tutti/backend/job_identity.hpp>

#include "base/fnv.hpp"
#include "os/address.hpp"
#include "secure/handshake.hpp"

namespace tutti::store {

using secure::kUnorderedGeneration;

/// JobIdentity::job of a store whose job has no name.
inline constexpr std::uint64_t kUnnamedJob = base::fnv_of("");

/// One side of a connection between a store and a user. `source`: JobSecret::source, which must
/// outlive the handshake. `told`: secure::Party::told, of a store.
[[nodiscard]] inline secure::Party store_party(JobIdentity identity = {.job = kUnnamedJob},
                                               bool encrypts = false, std::string_view source = {},
                                               const os::Address& told = {}) {
  return {std::move(identity), encrypts, secure::Purpose::store, source, told};
}

}  // namespace tutti::store
