#pragma once

#include <algorithm>
#include <cstdint>

#include <tutti/backend/collective.hpp>

namespace tutti::call {

/// Addresses from `begin` up to `end`, without `end`.
struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool overlaps(const ByteRange& other) const noexcept {
    return begin < other.end && other.begin < end;
  }
};

/// The bytes of a contiguous view that has memory. Inline, for the check of every call.
[[nodiscard]] inline ByteRange range_of_contiguous(const ConstTensorView& view) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data());
  return {begin, begin + view.size_bytes()};
}
/// The bytes of a view; with strides, all from its lowest element to its highest. Empty for a view
/// without elements or without memory.
[[nodiscard]] ByteRange range_of(const ConstTensorView& view) noexcept;
/// The same of a piece of one.
[[nodiscard]] ByteRange range_of(const Piece& piece) noexcept;

/// True if one of two calls of this rank writes memory that the other one reads or writes. Both
/// have passed the checks of ProcessGroup. Tensors with strides count with the gaps between their
/// elements.
[[nodiscard]] bool share_memory(const Collective& one, const Collective& other, int rank) noexcept;

}  // namespace tutti::call
