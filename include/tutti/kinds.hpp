#pragma once

#include <cstdint>
#include <string_view>

#include <tutti/collective.hpp>

// The one table of the kinds of operations. The library's checks, fingerprints,
// plans and texts read it, and so do Python's bindings and `tutti bench`; a backend of one's own
// may.
namespace tutti {

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

/// Which ranks.
enum class On : std::uint8_t {
  all,
  root,
  others,       ///< all but the root
  after_first,  ///< all but rank 0
};

/// May the blocks of the ranks differ in size?
enum class Uneven : std::uint8_t {
  no,
  agreed,    ///< all ranks give the same sizes
  pairwise,  ///< what a rank has for another is what that one expects, and nobody else knows
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
  bool prefix = false;  ///< what a rank gets comes from the ranks up to it, and not from all
};

/// Row by row in the order of the numbers. Checks, fingerprints, texts and what the prover expects
/// follow from a row; tools/kinds.py and tools/stubs.py make tables and stubs of it. A new kind
/// needs these, most of which `./dev check` misses (PLACES in tools/kinds.py):
/// - the call: process_group.hpp and options.hpp, src/group/process_group.cpp or collectives.cpp;
///   only a new Layout touches src/call/call_check.cpp, src/call/extent.cpp and the prover;
/// - its algorithms: builders in src/plan, their rows in src/plan/select.cpp; src/backend/mpi;
/// - its faces: bindings/python/src/collectives.cpp, bindings/python/tutti/distributed
///   (collectives, methods, names), apps/bench/operations.cpp and a case in each of
///   apps/bench/peers; its row or its exception in bindings/torch/src/operations.hpp;
/// - its tests: tests/support/prepared_call.hpp and operations.hpp (all backends, faults,
///   disagreements), tests/property (proof_cases.hpp, engine, group), tests/python;
/// - its pages: semantics, algorithms, torch-names, the tours in examples.
inline constexpr KindTraits kKindTraits[] = {
    {"barrier"},
    {"broadcast", Layout::same, false, true, On::root, On::others},
    {"all_reduce", Layout::same, true, false},
    {"new_group"},
    {"unused"},  // no kind has the number 4
    {"reduce", Layout::same, true, true, On::all, On::root},
    {"all_gather", Layout::gather, false, false, On::all, On::all, Uneven::agreed},
    {"gather", Layout::gather, false, true, On::all, On::root},
    {"scatter", Layout::scatter, false, true, On::root, On::all},
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

/// Is the rank one of them?
[[nodiscard]] constexpr bool is_on(On on, int rank, int root) noexcept {
  if (on == On::after_first) return rank != 0;
  return on == On::all || (on == On::root) == (rank == root);
}

/// Does this rank read from its input?
[[nodiscard]] constexpr bool uses_input(Kind kind, int rank, int root) noexcept {
  return has_data(kind) && is_on(traits_of(kind).reads, rank, root);
}
/// Does this rank write to its output?
[[nodiscard]] constexpr bool uses_output(Kind kind, int rank, int root) noexcept {
  return has_data(kind) && is_on(traits_of(kind).writes, rank, root);
}

/// The number of ranks, from rank 0 on, whose inputs are in the result of this rank.
[[nodiscard]] constexpr int ranks_combined(Kind kind, int rank, int size) noexcept {
  if (!traits_of(kind).prefix) return size;
  return traits_of(kind).writes == On::all ? rank + 1 : rank;
}

}  // namespace tutti
