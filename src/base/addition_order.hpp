#pragma once

#include <bit>
#include <vector>

// The order of every sum: the lowest-bit binomial tree over 0..size-1, root 0, so that
// ((0+1)+(2+3))+((4+5)+...). Kernels add sources in it, schedules add the sums of ranks in it, the
// prover expects it; trees of messages go along it as well.
namespace tutti::base {

/// A sum of `count` > 1 terms is the sum of the first lower_half(count) terms plus that of the
/// others. It is the largest power of two below `count`.
[[nodiscard]] constexpr int lower_half(int count) noexcept {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)) / 2);
}

/// The first place of the subtree of `width` places, a power of two, that contains `place`.
[[nodiscard]] constexpr int subtree_begin(int place, int width) noexcept {
  return place / width * width;
}
/// The first place of the subtree of the same width that is added to that one. It is empty if it
/// begins after the last place.
[[nodiscard]] constexpr int sibling_begin(int place, int width) noexcept {
  return subtree_begin(place, width) ^ width;
}

/// If terms come one after the other and sums wait on a stack: how many times the last two become
/// one after term `index`.
[[nodiscard]] constexpr int joins_after(int index) noexcept {
  return std::countr_zero(static_cast<unsigned>(index) + 1);
}

/// The place without its lowest bit. Place 0 has no parent.
[[nodiscard]] constexpr int tree_parent(int place) noexcept { return place & (place - 1); }

/// place + 1, place + 2, place + 4, ...: in the order in which their sums are added.
[[nodiscard]] inline std::vector<int> tree_children(int place, int size) {
  std::vector<int> children;
  for (int bit = 1; place + bit < size && (place & bit) == 0; bit *= 2) {
    children.push_back(place + bit);
  }
  return children;
}

}  // namespace tutti::base
