#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include <tutti/backend/kinds.hpp>
#include <tutti/error.hpp>

#include "plan/builders.hpp"

namespace tutti::plan {

/// An algorithm by name.
struct Algorithm {
  std::string_view name;
  Kind kind = Kind::barrier;
  OrderClass order = OrderClass::binomial;
  bool one_host = false;  ///< only if all ranks share a host
  /// One step makes each result from the inputs of all ranks: no partial sum is rounded.
  bool single_pass = false;
  /// all_to_all: each rank may have blocks of its own sizes, and knows no others.
  bool any_splits = false;
  /// Only if all blocks are equal: a rank infers from the chunks that it gets how far others are.
  bool even_blocks = false;
  /// It looks at which ranks share a host. Others build the same schedules wherever ranks are.
  bool looks_at_hosts = false;
  Schedule (*build)(const Shape&) = nullptr;
};

/// All algorithms. Schedules carry the same names; they are unique within a kind.
[[nodiscard]] std::span<const Algorithm> algorithms() noexcept;
/// nullptr if there is none of that name for that kind.
[[nodiscard]] const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept;

/// Where the ranks are. fit: one host with a CPU for each; oversubscribed: one host with fewer
/// CPUs; spread: every rank on a host of its own; mixed: several hosts, several ranks on some.
enum class Where : std::uint8_t { fit, oversubscribed, spread, mixed };

/// select() takes the first rule with the kind and place, with at least as many ranks and bytes as
/// the call, and with an algorithm that may run.
struct Rule {
  Kind kind = Kind::barrier;
  Where where = Where::fit;
  int ranks = 0;          ///< the most; kAnyRanks: no limit
  std::size_t bytes = 0;  ///< the most; kAnyBytes: no limit
  std::string_view algorithm;
  std::size_t chunk_bytes = 0;

  static constexpr int kAnyRanks = std::numeric_limits<int>::max();
  static constexpr std::size_t kAnyBytes = std::numeric_limits<std::size_t>::max();
};

/// The algorithm for one operation.
struct Choice {
  std::string_view algorithm;
  std::size_t chunk_bytes = 0;
  Schedule (*build)(const Shape&) = nullptr;
  const Rule* rule = nullptr;  ///< the rule that decided; nullptr: TUTTI_ALGO asked for it
};

/// The call to choose for. All ranks agree about all of it, except `bytes` of an uneven all_to_all,
/// which is not used.
struct Query {
  Kind kind = Kind::barrier;
  std::size_t bytes = 0;                ///< of the whole operation (see Binding::count)
  bool rounds = false;                  ///< additions round: their order must be binomial
  bool narrow = false;                  ///< partial sums must not be rounded: needs single_pass
  bool uneven = false;                  ///< all_to_all: every rank has blocks of its own sizes
  int cpus = 1;                         ///< of a host
  std::string_view override_text = {};  ///< as in TUTTI_ALGO, see check_override
  bool even_blocks = false;             ///< all blocks are equal
};

/// The fastest algorithm by our measurements (a table in select.cpp). An algorithm asked for by
/// name is taken only if it can run.
[[nodiscard]] Choice select(const Query& query, const Topology& topology);

/// The rules in the order in which select() looks at them.
[[nodiscard]] std::span<const Rule> rules() noexcept;
/// Why select() passes over a rule; the first reason counts.
enum class Refusal : std::uint8_t {
  none,        ///< the rule fits
  elsewhere,   ///< another kind of operation or another place
  ranks,       ///< more ranks than its limit
  bytes,       ///< more bytes than its limit
  order,       ///< the additions round, and it has another order of them
  cannot_run,  ///< its algorithm gives no correct result for this call
};
[[nodiscard]] Refusal refusal_of(const Rule& rule, const Query& query,
                                 const Topology& topology) noexcept;
[[nodiscard]] Where where_of(const Topology& topology, int cpus) noexcept;

/// Checks "kind:algorithm" pairs with commas between them, as in
/// "all_reduce:ring,broadcast:binomial_broadcast".
[[nodiscard]] Outcome check_override(std::string_view text);

}  // namespace tutti::plan
