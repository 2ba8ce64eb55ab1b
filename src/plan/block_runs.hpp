#pragma once

#include <algorithm>
#include <vector>

#include "plan/program.hpp"

namespace tutti::plan {

/// The blocks of `count` ranks from `first` on (modulo the size), as runs of consecutive blocks:
/// one run, or two if they go past the last rank.
[[nodiscard]] inline std::vector<Slice> block_runs(int first, int count, int size) {
  const int begin = first % size;
  const int before_end = std::min(count, size - begin);
  std::vector<Slice> runs{blocks(begin, before_end)};
  if (count > before_end) runs.push_back(blocks(0, count - before_end));
  return runs;
}

/// The tree along which blocks are gathered and scattered. Its nodes are places, counted from the
/// root on, so that every subtree is a run of ranks.
struct BlockTree {
  explicit BlockTree(const Shape& s) : size(s.size), root(s.root), place(s.place_of(s.rank)) {}

  [[nodiscard]] Expr rank_at(int at) const { return (at + root) % size; }
  /// The blocks of the subtree below this place.
  [[nodiscard]] std::vector<Slice> runs_below(int at) const {
    return block_runs(at + root, width_of(at), size);
  }
  [[nodiscard]] int width_of(int at) const {
    return at == 0 ? size : std::min(at & -at, size - at);
  }

  int size;
  int root;
  int place;
};

}  // namespace tutti::plan
