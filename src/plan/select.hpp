#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <tutti/collective.hpp>
#include <tutti/error.hpp>

#include "plan/builders.hpp"

namespace tutti::plan {

/// An algorithm by name.
struct Algorithm {
  std::string_view name;
  Kind kind = Kind::barrier;
  OrderClass order = OrderClass::binomial;
  bool one_host = false;  ///< only where all ranks share a host
  /// Every result is made of the inputs of all ranks in one step: nothing between is rounded.
  bool single_pass = false;
  /// all_to_all: each rank may have blocks of its own sizes, and knows no others.
  bool any_splits = false;
  /// Only where all blocks are alike: a rank learns from what it gets how far others are.
  bool even_blocks = false;
  Schedule (*build)(const Shape&) = nullptr;
};

/// All there are. The name is the one in their schedules, and unlike others of the same kind.
[[nodiscard]] std::span<const Algorithm> algorithms() noexcept;
/// nullptr where there is none of that name for that kind.
[[nodiscard]] const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept;

/// The algorithm for one operation.
struct Choice {
  std::string_view algorithm;
  std::size_t chunk_bytes = 0;
  Schedule (*build)(const Shape&) = nullptr;
};

/// The call, and the ranks that make it. All of it is agreed by all ranks, `bytes` of uneven
/// all_to_all excepted, where it is not looked at.
struct Query {
  Kind kind = Kind::barrier;
  std::size_t bytes = 0;                ///< of the whole operation (see Binding::count)
  bool rounds = false;                  ///< the order of additions is fixed
  bool narrow = false;                  ///< what is between inputs and results must not be rounded
  bool uneven = false;                  ///< all_to_all: every rank has blocks of its own sizes
  int cpus = 1;                         ///< of a host
  std::string_view override_text = {};  ///< as in TUTTI_ALGO, see check_override
  bool even_blocks = false;             ///< of operations of blocks: all are alike
};

/// The best algorithm as far as measured; a table in select.cpp. An algorithm asked for by name is
/// not taken where it cannot run.
[[nodiscard]] Choice select(const Query& query, const Topology& topology);

/// "kind:algorithm" pairs with commas between: "all_reduce:ring,broadcast:binomial_broadcast". Says
/// what is wrong with it.
[[nodiscard]] Status check_override(std::string_view text);

}  // namespace tutti::plan
