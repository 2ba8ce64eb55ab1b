#pragma once

#include <vector>

// The lowest-bit binomial tree over 0..size-1, root 0: the order of every sum (decisions A4) and
// the way of every tree of messages.
namespace tutti::plan {

/// The place without its lowest bit. Place 0 has no parent.
[[nodiscard]] inline int tree_parent(int place) noexcept { return place & (place - 1); }

/// place + 1, place + 2, place + 4, ...: in the order in which their sums are added.
[[nodiscard]] inline std::vector<int> tree_children(int place, int size) {
  std::vector<int> children;
  for (int bit = 1; place + bit < size && (place & bit) == 0; bit *= 2) {
    children.push_back(place + bit);
  }
  return children;
}

}  // namespace tutti::plan
