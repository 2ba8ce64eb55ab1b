#pragma once

#include <cstdint>
#include <string_view>

#include <tutti/collective.hpp>

// What is known about each kind of operation, in one place.
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

struct KindTraits {
  std::string_view name;
  Layout layout = Layout::none;
  bool reduces = false;  ///< has a reduce op
  bool rooted = false;   ///< has a root
};

/// Row by row in the order of the numbers.
inline constexpr KindTraits kKindTraits[] = {
    {"barrier"},
    {"broadcast", Layout::same, false, true},
    {"all_reduce", Layout::same, true, false},
    {"new_group"},
    {"close"},
    {"reduce", Layout::same, true, true},
    {"all_gather", Layout::gather, false, false},
    {"gather", Layout::gather, false, true},
    {"scatter", Layout::scatter, false, true},
    {"reduce_scatter", Layout::scatter, true, false},
    {"all_to_all", Layout::exchange, false, false},
    {"send", Layout::pair, false, false},
    {"recv", Layout::pair, false, false},
};
static_assert(sizeof(kKindTraits) / sizeof(kKindTraits[0]) == kKindCount);

[[nodiscard]] constexpr const KindTraits& traits_of(Kind kind) noexcept {
  return kKindTraits[static_cast<int>(kind)];
}

/// Moves elements, and is one of the operations that all ranks of a group number alike.
[[nodiscard]] constexpr bool is_collective(Kind kind) noexcept {
  return traits_of(kind).layout != Layout::pair;
}

[[nodiscard]] constexpr bool has_data(Kind kind) noexcept {
  return traits_of(kind).layout != Layout::none;
}

/// Does this rank read from its input / write to its output?
[[nodiscard]] constexpr bool uses_input(Kind kind, int rank, int root) noexcept {
  const KindTraits& t = traits_of(kind);
  if (!t.rooted || t.layout == Layout::gather || kind == Kind::reduce) return has_data(kind);
  return rank == root;  // broadcast, scatter
}
[[nodiscard]] constexpr bool uses_output(Kind kind, int rank, int root) noexcept {
  const KindTraits& t = traits_of(kind);
  if (t.rooted && (t.layout == Layout::gather || kind == Kind::reduce)) return rank == root;
  return has_data(kind) && !(kind == Kind::broadcast && rank == root);
}

}  // namespace tutti
