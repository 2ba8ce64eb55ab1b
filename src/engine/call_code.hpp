#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tutti/collective.hpp>

namespace tutti::engine {

/// A call packed into 24 bytes: what is agreed by all ranks (the table stands in
/// docs/fingerprint.md). It travels in cold lines and frame heads, so that an error names both
/// calls.
using CallCode = std::array<std::uint64_t, 3>;

struct Extent;
[[nodiscard]] CallCode encode(const Collective& call, const Extent& extent) noexcept;
/// Of a call as it stands in the head of a frame: without the number that is for its receiver alone
/// (pump).
[[nodiscard]] CallCode agreed_part(std::span<const std::uint64_t, 3> call) noexcept;
/// For people; never fails, whatever the bits.
[[nodiscard]] std::string describe(const CallCode& code);
/// What differs between two calls of which `describe` says the same: " of other sizes".
[[nodiscard]] std::string_view unseen_difference(const CallCode& code) noexcept;

/// Mixes the fingerprint of the call before with this call: equal only if the whole history is.
[[nodiscard]] std::uint64_t chain(std::uint64_t before, const CallCode& code) noexcept;
/// Where a group's chain begins: its id and the digest of the settings that must be equal.
[[nodiscard]] std::uint64_t chain_start(std::uint64_t group_id, std::uint64_t settings) noexcept;

/// 64-bit hash of text, for ids and digests. No cryptographic hash.
[[nodiscard]] std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) noexcept;

}  // namespace tutti::engine
