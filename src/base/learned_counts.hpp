#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <tutti/backend/kinds.hpp>
#include <tutti/dtype.hpp>

// The exchange of counts before an operation that learns them: gather_v, all_gather_v and
// all_to_all_v. `Collective::digest` says what the operation moves, so that an error about ranks
// with different calls shows it.
namespace tutti::base {

/// The digest of the exchange for elements of that dtype, or for structs of so many bytes. Its low
/// bits are those of no other digest of a call (docs/design/fingerprint.md), and it is never 0.
[[nodiscard]] constexpr std::uint64_t learned_counts_digest(DType dtype,
                                                            std::size_t struct_size) noexcept {
  return (std::uint64_t{struct_size} << 8 | static_cast<std::uint8_t>(dtype)) << 4;
}

[[nodiscard]] constexpr bool learns_counts(Kind kind, std::uint64_t digest) noexcept {
  return has_data(kind) && digest != 0 && (digest & 15) == 0;
}

/// The operation that learns: "gather_v(root 0, float32)". Any bits.
[[nodiscard]] inline std::string learning_text(Kind kind, int root, std::uint64_t digest) {
  const std::uint64_t size = digest >> 12;
  return fmt::format("{}_v({}{})", to_string(kind),
                     traits_of(kind).rooted ? fmt::format("root {}, ", root) : "",
                     size == 1 ? std::string(to_string(static_cast<DType>(digest >> 4 & 0xff)))
                               : fmt::format("structs of {} bytes", size));
}

}  // namespace tutti::base
