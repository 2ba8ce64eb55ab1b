#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/operations.hpp"

// The table of disagreements: which operation, what one rank does differently, which rank it is and
// how large the call. Every rank generates the same cells.
namespace tutti::test {

enum class Aspect { operation, dtype, count, root, reduce_op, order };
inline constexpr Aspect kAspects[] = {Aspect::operation, Aspect::dtype,     Aspect::count,
                                      Aspect::root,      Aspect::reduce_op, Aspect::order};

inline std::string_view name_of(Aspect aspect) {
  constexpr std::string_view kNames[] = {"operation", "dtype",     "count",
                                         "root",      "reduce op", "order"};
  return kNames[static_cast<int>(aspect)];
}

/// Can ranks that call this operation differ in that at all?
inline bool has(const Operation& operation, Aspect aspect) {
  const KindTraits& traits = traits_of(operation.kind);
  switch (aspect) {
    case Aspect::operation:
    case Aspect::order: return true;
    case Aspect::dtype: return has_data(operation.kind);
    // A new group has a number of ranks.
    case Aspect::count: return has_data(operation.kind) || operation.kind == Kind::new_group;
    case Aspect::root: return traits.rooted;
    case Aspect::reduce_op: return traits.reduces;
  }
  return false;
}

struct Cell {
  Operation operation;
  Aspect aspect = Aspect::operation;
  Operation other;  ///< what the odd one calls instead, or before
  int odd = 0;      ///< the rank that differs from all others
  std::size_t count = 0;

  [[nodiscard]] std::string text() const {
    return std::string(operation.name) + ", another " + std::string(name_of(aspect)) +
           (aspect == Aspect::operation || aspect == Aspect::order
                ? " (" + std::string(other.name) + ")"
                : "") +
           " on rank " + std::to_string(odd) + ", " + std::to_string(count) + " elements";
  }
};

/// Elements of a block: with a line, staged, in pieces.
inline constexpr std::size_t kCellCounts[] = {3, 700, 40'000};

/// How many of the cells of a number of ranks: sizes, odd ones and other operations take turns.
enum class Cells {
  few,    ///< one of each operation and aspect
  sizes,  ///< ... and size
  all,    ///< ... and odd one; where another operation is called, one of each other operation
};

inline std::vector<Cell> make_cells(int size, Cells which) {
  constexpr std::size_t kSizes = std::size(kCellCounts);
  const int odds[] = {size - 1, 0, size / 2};
  std::vector<Cell> cells;
  std::size_t turn = 0;
  for (const Operation& operation : kOperations) {
    std::vector<Operation> others;
    for (const Operation& other : kOperations) {
      if (other.kind != operation.kind) others.push_back(other);
    }
    for (const Aspect aspect : kAspects) {
      if (!has(operation, aspect)) continue;
      const bool two = aspect == Aspect::operation || aspect == Aspect::order;
      const std::size_t all = two ? others.size() : kSizes * std::size(odds);
      const std::size_t n = which == Cells::few ? 1 : which == Cells::sizes ? kSizes : all;
      const std::size_t begin = which == Cells::few ? turn++ : 0;
      for (std::size_t at = begin; at < begin + n; ++at) {
        Cell cell;
        cell.operation = operation;
        cell.aspect = aspect;
        cell.count = kCellCounts[at % kSizes];
        cell.odd = odds[(at / kSizes + static_cast<std::size_t>(operation.kind)) % std::size(odds)];
        cell.other =
            others[which == Cells::all ? at % others.size() : (at * 7 + turn) % others.size()];
        cells.push_back(cell);
      }
      if (which == Cells::sizes) turn += 5;
    }
  }
  return cells;
}

/// Does the rank write something that it makes of the odd one's data (or, as the odd one, of the
/// others')? Then nothing of it may be written.
inline bool uses_what_differs(const Operation& operation, int root, int rank, int odd) {
  if (!uses_output(operation.kind, rank, root)) return false;
  const bool of_root_only = operation.kind == Kind::broadcast || operation.kind == Kind::scatter;
  if (of_root_only) return rank != root && (rank == odd || root == odd);
  return true;
}

}  // namespace tutti::test
