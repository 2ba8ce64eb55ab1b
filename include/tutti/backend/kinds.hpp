#pragma once

#include <cstdint>
#include <string_view>

#include <tutti/export.hpp>

// The table of the kinds of operations. Checks, fingerprints and texts follow from it.
namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Kinds of operations (4 is not used).
enum class Kind : std::uint8_t {
  barrier = 0,
  broadcast = 1,
  all_reduce = 2,
  new_group = 3,  ///< creation of a sub-group: a barrier whose digest is the list of ranks
  reduce = 5,
  all_gather = 6,
  gather = 7,
  scatter = 8,
  reduce_scatter = 9,
  all_to_all = 10,
  send = 11,  ///< point to point: not numbered with the others
  recv = 12,
  scan = 13,            ///< rank r gets the combined inputs of the ranks 0 to r
  exclusive_scan = 14,  ///< rank r gets those of the ranks 0 to r - 1; rank 0 gets nothing
  probe = 15,           ///< finds a message, and keeps it for a recv of its caller
};

/// Number of kinds; every valid Kind is below it.
inline constexpr int kKindCount = 16;

/// "all_reduce", ...
[[nodiscard]] std::string_view to_string(Kind kind) noexcept;

/// Which elements of an operation a rank's input and output hold. An operation of P ranks has
/// either `count` elements, or P blocks of them; blocks lie in the order of the ranks.
enum class Layout : std::uint8_t {
  none,      ///< no elements
  same,      ///< input and output hold all elements
  gather,    ///< input: the block of this rank; output: all blocks
  scatter,   ///< input: all blocks; output: the block of this rank
  exchange,  ///< input: a block for each rank; output: a block from each rank
  pair,      ///< one rank's output is another rank's input
};

/// The ranks that a property holds for.
enum class On : std::uint8_t {
  all,
  root,
  others,       ///< all but the root
  after_first,  ///< all but rank 0
};

/// Whether the blocks of the ranks may differ in size.
enum class Uneven : std::uint8_t {
  no,
  agreed,    ///< all ranks give the same sizes
  pairwise,  ///< sender and receiver agree on the size of a block; no other rank knows it
};

/// The properties of one kind of operation.
struct KindTraits {
  std::string_view name;
  Layout layout = Layout::none;
  bool reduces = false;  ///< has a reduce op
  bool rooted = false;   ///< has a root
  On reads = On::all;    ///< ranks that have an input
  On writes = On::all;   ///< ranks that have an output
  Uneven uneven = Uneven::no;
  bool prefix = false;  ///< only inputs of the ranks up to a rank are in its result
};

/// One row for each kind, in the order of the numbers.
inline constexpr KindTraits kKindTraits[] = {
    {"barrier"},
    {"broadcast", Layout::same, false, true, On::root, On::others},
    {"all_reduce", Layout::same, true, false},
    {"new_group"},
    {"unused"},  // no kind has the number 4
    {"reduce", Layout::same, true, true, On::all, On::root},
    {"all_gather", Layout::gather, false, false, On::all, On::all, Uneven::agreed},
    {"gather", Layout::gather, false, true, On::all, On::root, Uneven::pairwise},
    {"scatter", Layout::scatter, false, true, On::root, On::all, Uneven::pairwise},
    {"reduce_scatter", Layout::scatter, true, false, On::all, On::all, Uneven::agreed},
    {"all_to_all", Layout::exchange, false, false, On::all, On::all, Uneven::pairwise},
    {"send", Layout::pair, false, false},
    {"recv", Layout::pair, false, false},
    {"scan", Layout::same, true, false, On::all, On::all, Uneven::no, true},
    {"exclusive_scan", Layout::same, true, false, On::all, On::after_first, Uneven::no, true},
    {"probe", Layout::pair, false, false},
};
static_assert(sizeof(kKindTraits) / sizeof(kKindTraits[0]) == kKindCount);

/// The row of a kind.
[[nodiscard]] constexpr const KindTraits& traits_of(Kind kind) noexcept {
  return kKindTraits[static_cast<int>(kind)];
}

/// All but send, recv and probe: the operations that all ranks of a group number alike.
[[nodiscard]] constexpr bool is_collective(Kind kind) noexcept {
  return traits_of(kind).layout != Layout::pair;
}

/// Has elements: all but barriers.
[[nodiscard]] constexpr bool has_data(Kind kind) noexcept {
  return traits_of(kind).layout != Layout::none;
}

/// True if the rank is one of them.
[[nodiscard]] constexpr bool is_on(On on, int rank, int root) noexcept {
  if (on == On::after_first) return rank != 0;
  return on == On::all || (on == On::root) == (rank == root);
}

/// True if this rank reads from its input.
[[nodiscard]] constexpr bool uses_input(Kind kind, int rank, int root) noexcept {
  return has_data(kind) && is_on(traits_of(kind).reads, rank, root);
}
/// True if this rank writes to its output.
[[nodiscard]] constexpr bool uses_output(Kind kind, int rank, int root) noexcept {
  return has_data(kind) && is_on(traits_of(kind).writes, rank, root);
}

/// The ranks `first` to `first + count - 1`.
struct RankRange {
  int first = 0;
  int count = 0;
};

/// The ranks whose inputs are in the result of this rank.
[[nodiscard]] constexpr RankRange ranks_in_result(Kind kind, int rank, int root,
                                                  int size) noexcept {
  const KindTraits& traits = traits_of(kind);
  const bool copied = traits.layout == Layout::same || traits.layout == Layout::scatter;
  if (copied && !traits.reduces) return {root, 1};
  if (!traits.prefix) return {0, size};
  return {0, traits.writes == On::all ? rank + 1 : rank};
}

}  // namespace v0
}  // namespace tutti
