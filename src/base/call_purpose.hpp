#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tutti/backend/kinds.hpp>
#include <tutti/dtype.hpp>

#include "base/format.hpp"

// Operations that are the first part of another one: the exchange of counts of gather_v,
// all_gather_v and all_to_all_v, and the heads of objects. `Collective::digest` says so, so that
// they differ from plain ones, and an error about ranks with different calls shows what for.
namespace tutti::base {

/// The digest of an exchange of counts for elements of that dtype, or for structs of so many bytes.
/// Its low bits are those of no other digest of a call (docs/design/fingerprint.md), and it is
/// never 0.
[[nodiscard]] constexpr std::uint64_t learned_counts_digest(DType dtype,
                                                            std::size_t struct_size) noexcept {
  return (std::uint64_t{struct_size} << 8 | static_cast<std::uint8_t>(dtype)) << 4;
}

/// The digest of what moves the heads of objects: with a dtype that there is not.
inline constexpr std::uint64_t kObjectDigest = 0xff << 4;

[[nodiscard]] constexpr bool has_purpose(Kind kind, std::uint64_t digest) noexcept {
  return has_data(kind) && digest != 0 && (digest & 15) == 0;
}

/// The operation that this one is a part of: "gather_v(root 0, float32)",
/// "broadcast_object(root 0)". Any bits.
[[nodiscard]] inline std::string purpose_text(Kind kind, int root, std::uint64_t digest) {
  const bool rooted = traits_of(kind).rooted;
  const std::string_view name = to_string(kind);
  if (digest == kObjectDigest)
    return base::format("{}_object({})", name, rooted ? base::format("root {}", root) : "");
  const std::uint64_t size = digest >> 12;
  return base::format("{}_v({}{})", name, rooted ? base::format("root {}, ", root) : "",
                      size == 1 ? std::string(to_string(static_cast<DType>(digest >> 4 & 0xff)))
                                : base::format("structs of {} bytes", size));
}

}  // namespace tutti::base
