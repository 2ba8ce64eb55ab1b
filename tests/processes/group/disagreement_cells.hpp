#pragma once

#include <algorithm>
#include <cctype>

#include "support/operations.hpp"

// The table of disagreements: which operation, what one rank does differently, which rank it is and
// how large the call. Every rank generates the same cells.
namespace tutti::test {

enum class Aspect {
  operation,
  dtype,
  count,
  root,
  reduce_op,
  order,
  // Of several tensors in one operation:
  tensors,    ///< as many elements in fewer tensors
  division,   ///< ... in as many tensors of other sizes
  single,     ///< ... in one, without _coalesced
  one_dtype,  ///< a tensor of another type: the odd one's call is refused and nothing is sent
};
inline constexpr Aspect kAspects[] = {
    Aspect::operation, Aspect::dtype,   Aspect::count,    Aspect::root,   Aspect::reduce_op,
    Aspect::order,     Aspect::tensors, Aspect::division, Aspect::single, Aspect::one_dtype};

inline std::string_view name_of(Aspect aspect) {
  constexpr std::string_view kNames[] = {
      "operation", "dtype",   "count", "root",          "reduce op",
      "order",     "tensors", "sizes", "single tensor", "dtype of one tensor"};
  return kNames[static_cast<int>(aspect)];
}

/// Every operation in every form, those of several tensors included.
inline std::vector<Operation> cell_operations() {
  std::vector<Operation> all(std::begin(kOperations), std::end(kOperations));
  all.insert(all.end(), std::begin(kCoalesced), std::end(kCoalesced));
  return all;
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
    case Aspect::tensors:
    case Aspect::division:
    case Aspect::single:
    case Aspect::one_dtype: return operation.blocks == Operation::Blocks::several;
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
  const std::vector<Operation> operations = cell_operations();
  std::vector<Cell> cells;
  std::size_t turn = 0;
  for (const Operation& operation : operations) {
    std::vector<Operation> others;
    for (const Operation& other : operations)
      if (other.kind != operation.kind) others.push_back(other);
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
  if (traits_of(operation.kind).prefix)  // of a scan the odd one uses those below it, if any
    return rank == odd ? rank > 0 : odd < ranks_in_result(operation.kind, rank, 0, 0).count;
  const bool of_root_only = operation.kind == Kind::broadcast || operation.kind == Kind::scatter;
  if (of_root_only) return rank != root && (rank == odd || root == odd);
  return true;
}

/// Does a message name this rank: "rank 3" (not the begin of "rank 31"), or one of "Ranks 1, 3"?
inline bool names_rank(std::string text, int rank) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find("rank"); at != std::string::npos; at = text.find("rank", at)) {
    at += 4;
    if (at < text.size() && text[at] == 's') ++at;
    while (at < text.size() && text[at] == ' ' && digit(at + 1)) {
      std::size_t end = ++at;
      while (digit(end)) ++end;
      if (text.substr(at, end - at) == std::to_string(rank)) return true;
      at = end < text.size() && text[end] == ',' ? end + 1 : end;
      if (at == end) break;
    }
  }
  return false;
}

/// One rank calls a monitored_barrier and all others something else, or the other way round.
struct MonitoredCell {
  Operation other;
  int odd = 0;
  bool odd_monitors = false;  ///< the odd one calls the barrier

  [[nodiscard]] bool monitors(int rank) const { return (rank == odd) == odd_monitors; }
  [[nodiscard]] std::string text() const {
    const std::string barrier = "monitored_barrier";
    const std::string another(other.name);
    return (odd_monitors ? barrier : another) + " on rank " + std::to_string(odd) + ", " +
           (odd_monitors ? another : barrier) + " on all others";
  }
};

/// Both ways round, rank 0 odd or not. `each`: for every operation; else they turn, from `turn` on.
inline std::vector<MonitoredCell> make_monitored_cells(int size, bool each, std::size_t turn) {
  const std::vector<Operation> operations = cell_operations();
  std::vector<MonitoredCell> cells;
  for (std::size_t at = 0; at < (each ? 4 * operations.size() : 4); ++at) {
    const Operation& other = operations[each ? at / 4 : (turn * 4 + at) * 5 % operations.size()];
    cells.push_back({other, at % 2 == 0 ? size - 1 : 0, at % 4 >= 2});
  }
  return cells;
}

}  // namespace tutti::test
