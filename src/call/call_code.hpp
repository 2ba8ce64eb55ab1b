#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tutti/backend/collective.hpp>
#include <tutti/error.hpp>

namespace tutti::call {

/// A call packed into 24 bytes: what is agreed by all ranks (the table stands in
/// docs/design/fingerprint.md). It stands in the blocks of groups and in frame heads, so that an
/// error names both calls.
using CallCode = std::array<std::uint64_t, 3>;

struct Extent;
[[nodiscard]] CallCode encode(const Collective& call, const Extent& extent) noexcept;
/// Of a call as it stands in the head of a frame: without the number that is for its receiver alone
/// (pump).
[[nodiscard]] CallCode agreed_part(std::span<const std::uint64_t, 3> call) noexcept;
/// For people; never fails, whatever the bits.
[[nodiscard]] std::string describe(const CallCode& code);
/// "as operation 3 rank 0 on a called ... but rank 1 on b called ...": two calls that differ.
/// `our_call`, `their_call`: as `describe` prints them.
[[nodiscard]] std::string difference(std::uint64_t seq, const CallCode& ours, std::string_view us,
                                     std::string_view our_call, std::string_view them,
                                     std::string_view their_call);
/// The error of a group whose ranks have made different calls; `difference` tells which.
[[nodiscard]] Outcome ranks_disagree(std::string_view group, std::string_view difference);

namespace detail {

// Multiply-xorshift finaliser (Steele, Lea, Flood 2014: the mixer of SplitMix64).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace detail

/// Mixes the fingerprint of the call before with this call: equal only if the whole history is.
[[nodiscard]] inline std::uint64_t chain(std::uint64_t before, const CallCode& code) noexcept {
  // Three independent products, added before the last mix: a short dependency chain.
  const std::uint64_t a = (code[0] ^ 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
  const std::uint64_t b = (code[1] + 0xd1b54a32d192ed03ULL) * 0xc4ceb9fe1a85ec53ULL;
  const std::uint64_t c = (code[2] ^ 0x8cb92ba72f3d8dd7ULL) * 0xaef17502108ef2d9ULL;
  return detail::mix((before << 1 | before >> 63) +
                     (a ^ (b << 29 | b >> 35) ^ (c << 47 | c >> 17)));
}
/// Where a group's chain begins: its id and the digest of the settings that must be equal.
[[nodiscard]] std::uint64_t chain_start(std::uint64_t group_id, std::uint64_t settings) noexcept;

/// 64-bit hash of text, for ids and digests. No cryptographic hash.
[[nodiscard]] std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) noexcept;

}  // namespace tutti::call
