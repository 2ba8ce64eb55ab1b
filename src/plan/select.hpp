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
  Schedule (*build)(const Shape&) = nullptr;
};

/// All there are. The name is the one in their schedules.
[[nodiscard]] std::span<const Algorithm> algorithms() noexcept;
/// nullptr where there is none of that name for that kind.
[[nodiscard]] const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept;

/// What to do for one operation.
struct Choice {
  std::string_view algorithm;
  std::size_t chunk_bytes = 0;
  Schedule (*build)(const Shape&) = nullptr;
};

/// The best algorithm as far as measured; a table in select.cpp. Everything it looks at is agreed
/// by all ranks. `rounds`: the operation rounds, so its order of additions is fixed. `cpus`: those
/// of a host. `override_text`: as in TUTTI_ALGO, see check_override; an algorithm that cannot run
/// on this topology is not taken.
[[nodiscard]] Choice select(Kind kind, bool rounds, std::size_t bytes, const Topology& topology,
                            int cpus, std::string_view override_text);

/// "kind:algorithm" pairs with commas between: "all_reduce:ring,broadcast:binomial_broadcast". Says
/// what is wrong with it.
[[nodiscard]] Status check_override(std::string_view text);

}  // namespace tutti::plan
