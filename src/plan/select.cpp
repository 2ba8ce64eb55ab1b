#include "plan/select.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <tutti/backend/kinds.hpp>

#include "base/format.hpp"
#include "base/number.hpp"

namespace tutti::plan {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kAny = Rule::kAnyBytes;
constexpr int kAnyRanks = Rule::kAnyRanks;

// Short names for the table. kExact: chosen only for operations that do not round, or by name.
constexpr auto kExact = OrderClass::other;
constexpr auto kTree = OrderClass::binomial;

/// The properties of an algorithm, except its order.
enum Traits : unsigned {
  kPlain = 0,
  kOneHost = 1,
  kSinglePass = 2,
  kAnySplits = 4,
  kEvenBlocks = 8,
  kHosts = 16,
};

constexpr Algorithm algorithm(Kind kind, std::string_view name, Schedule (*build)(const Shape&),
                              unsigned traits = kPlain, OrderClass order = kTree) {
  return {name,
          kind,
          order,
          (traits & kOneHost) != 0,
          (traits & kSinglePass) != 0,
          (traits & kAnySplits) != 0,
          (traits & kEvenBlocks) != 0,
          (traits & kHosts) != 0,
          build};
}

constexpr std::array kAlgorithms{
    algorithm(Kind::barrier, "region_barrier", region_barrier, kOneHost),
    algorithm(Kind::barrier, "direct_barrier", direct_barrier),
    algorithm(Kind::barrier, "dissemination_barrier", dissemination_barrier),
    algorithm(Kind::barrier, "two_level_barrier", two_level_barrier, kHosts),
    algorithm(Kind::broadcast, "broadcast_one_shot", region_broadcast_one_shot, kOneHost),
    algorithm(Kind::broadcast, "broadcast_chunked", region_broadcast_chunked, kOneHost),
    algorithm(Kind::broadcast, "direct_broadcast", direct_broadcast),
    algorithm(Kind::broadcast, "binomial_broadcast", binomial_broadcast),
    algorithm(Kind::broadcast, "scatter_all_gather_broadcast", scatter_all_gather_broadcast),
    algorithm(Kind::broadcast, "two_level_broadcast", two_level_broadcast, kHosts),
    algorithm(Kind::all_reduce, "one_shot", one_shot_all_reduce, kOneHost | kSinglePass),
    algorithm(Kind::all_reduce, "shared_one_shot", shared_one_shot_all_reduce,
              kOneHost | kSinglePass),
    algorithm(Kind::all_reduce, "slice_owner", slice_owner_all_reduce, kOneHost | kSinglePass),
    algorithm(Kind::all_reduce, "exchange", exchange_all_reduce, kSinglePass),
    algorithm(Kind::all_reduce, "direct", direct_all_reduce, kSinglePass),
    algorithm(Kind::all_reduce, "binomial", binomial_all_reduce),
    algorithm(Kind::all_reduce, "recursive_doubling", doubling_all_reduce),
    algorithm(Kind::all_reduce, "ring", ring_all_reduce, kPlain, kExact),
    algorithm(Kind::all_reduce, "two_level", two_level_all_reduce, kHosts),
    algorithm(Kind::reduce, "one_shot", one_shot_reduce, kOneHost | kSinglePass),
    algorithm(Kind::reduce, "slice_owner", slice_owner_reduce, kOneHost | kSinglePass),
    algorithm(Kind::reduce, "direct", direct_reduce, kSinglePass),
    algorithm(Kind::reduce, "owners", owners_reduce, kSinglePass),
    algorithm(Kind::reduce, "binomial", binomial_reduce),
    algorithm(Kind::reduce, "two_level", two_level_reduce, kHosts),
    algorithm(Kind::all_gather, "one_shot", one_shot_all_gather, kOneHost),
    algorithm(Kind::all_gather, "chunked", chunked_all_gather, kOneHost),
    algorithm(Kind::all_gather, "direct", direct_all_gather),
    algorithm(Kind::all_gather, "bruck", bruck_all_gather),
    algorithm(Kind::all_gather, "ring", ring_all_gather),
    algorithm(Kind::all_gather, "two_level", two_level_all_gather, kHosts),
    algorithm(Kind::gather, "one_shot", one_shot_gather, kOneHost),
    algorithm(Kind::gather, "chunked", chunked_gather, kOneHost),
    algorithm(Kind::gather, "direct", direct_gather, kAnySplits),
    algorithm(Kind::gather, "binomial", binomial_gather),
    algorithm(Kind::gather, "two_level", two_level_gather, kHosts),
    algorithm(Kind::scatter, "one_shot", one_shot_scatter, kOneHost),
    algorithm(Kind::scatter, "chunked", chunked_scatter, kOneHost),
    algorithm(Kind::scatter, "direct", direct_scatter, kAnySplits),
    algorithm(Kind::scatter, "binomial", binomial_scatter),
    algorithm(Kind::scatter, "two_level", two_level_scatter, kHosts),
    algorithm(Kind::reduce_scatter, "one_shot", one_shot_reduce_scatter, kOneHost | kSinglePass),
    algorithm(Kind::reduce_scatter, "chunked", chunked_reduce_scatter, kOneHost | kSinglePass),
    algorithm(Kind::reduce_scatter, "direct", direct_reduce_scatter, kSinglePass),
    algorithm(Kind::reduce_scatter, "ring", ring_reduce_scatter, kPlain, kExact),
    algorithm(Kind::reduce_scatter, "recursive_halving", halving_reduce_scatter, kPlain, kExact),
    algorithm(Kind::reduce_scatter, "two_level", two_level_reduce_scatter, kEvenBlocks | kHosts),
    algorithm(Kind::all_to_all, "one_shot", one_shot_all_to_all, kOneHost),
    algorithm(Kind::all_to_all, "chunked", chunked_all_to_all, kOneHost),
    algorithm(Kind::all_to_all, "direct_all_to_all", direct_all_to_all, kAnySplits),
    algorithm(Kind::scan, "one_shot", one_shot_scan, kOneHost | kSinglePass),
    algorithm(Kind::scan, "chunked", chunked_scan, kOneHost | kSinglePass),
    algorithm(Kind::scan, "exchange", exchange_scan, kSinglePass),
    algorithm(Kind::scan, "direct", direct_scan, kSinglePass),
    algorithm(Kind::exclusive_scan, "one_shot", one_shot_exclusive_scan, kOneHost | kSinglePass),
    algorithm(Kind::exclusive_scan, "chunked", chunked_exclusive_scan, kOneHost | kSinglePass),
    algorithm(Kind::exclusive_scan, "exchange", exchange_exclusive_scan, kSinglePass),
    algorithm(Kind::exclusive_scan, "direct", direct_exclusive_scan, kSinglePass),
};

constexpr Rule kTable[] = {
    {Kind::barrier, Where::fit, kAnyRanks, kAny, "region_barrier", 0},
    {Kind::barrier, Where::oversubscribed, kAnyRanks, kAny, "region_barrier", 0},
    {Kind::barrier, Where::spread, 16, kAny, "direct_barrier", 0},
    {Kind::barrier, Where::spread, kAnyRanks, kAny, "dissemination_barrier", 0},
    {Kind::barrier, Where::mixed, kAnyRanks, kAny, "two_level_barrier", 0},

    {Kind::broadcast, Where::fit, kAnyRanks, 64 * kKiB, "broadcast_one_shot", 0},
    {Kind::broadcast, Where::fit, kAnyRanks, kAny, "broadcast_chunked", 512 * kKiB},
    {Kind::broadcast, Where::oversubscribed, kAnyRanks, 256 * kKiB, "broadcast_one_shot", 0},
    {Kind::broadcast, Where::oversubscribed, kAnyRanks, kAny, "broadcast_chunked", 256 * kKiB},
    {Kind::broadcast, Where::spread, 2, kAny, "binomial_broadcast", 128 * kKiB},
    // The root sends up to 120 KiB: as long as one hop takes on a slow network.
    {Kind::broadcast, Where::spread, 4, 32 * kKiB, "direct_broadcast", 0},
    {Kind::broadcast, Where::spread, 16, 8 * kKiB, "direct_broadcast", 0},
    {Kind::broadcast, Where::spread, kAnyRanks, 32 * kKiB, "binomial_broadcast", 128 * kKiB},
    {Kind::broadcast, Where::spread, 64, kAny, "scatter_all_gather_broadcast", 128 * kKiB},
    {Kind::broadcast, Where::spread, kAnyRanks, kAny, "binomial_broadcast", 128 * kKiB},
    {Kind::broadcast, Where::mixed, kAnyRanks, kAny, "two_level_broadcast", 128 * kKiB},

    {Kind::all_reduce, Where::fit, 2, 32 * kKiB, "one_shot", 0},
    {Kind::all_reduce, Where::fit, kAnyRanks, 4 * kKiB, "one_shot", 0},
    {Kind::all_reduce, Where::fit, kAnyRanks, 4 * kMiB, "slice_owner", 512 * kKiB},
    {Kind::all_reduce, Where::fit, kAnyRanks, kAny, "slice_owner", 256 * kKiB},
    {Kind::all_reduce, Where::oversubscribed, kAnyRanks, 1 * kKiB, "one_shot", 0},
    {Kind::all_reduce, Where::oversubscribed, kAnyRanks, 16 * kKiB, "shared_one_shot", 0},
    {Kind::all_reduce, Where::oversubscribed, kAnyRanks, kAny, "slice_owner", 256 * kKiB},
    // Each rank sends (P - 1) n, in place of 2n (P - 1)/P in two hops.
    {Kind::all_reduce, Where::spread, 2, 256 * kKiB, "exchange", 0},
    {Kind::all_reduce, Where::spread, 4, 32 * kKiB, "exchange", 0},
    {Kind::all_reduce, Where::spread, 16, 8 * kKiB, "exchange", 0},
    {Kind::all_reduce, Where::spread, 64, kAny, "direct", 256 * kKiB},
    {Kind::all_reduce, Where::spread, kAnyRanks, 4 * kKiB, "recursive_doubling", 0},
    {Kind::all_reduce, Where::spread, kAnyRanks, kAny, "direct", 256 * kKiB},
    // Leaders exchange small inputs as a whole (no chunks), and larger ones as parts of chunks.
    {Kind::all_reduce, Where::mixed, kAnyRanks, 8 * kKiB, "two_level", 0},
    {Kind::all_reduce, Where::mixed, kAnyRanks, kAny, "two_level", 256 * kKiB},
    // If the sum must not be made of partial sums.
    {Kind::all_reduce, Where::mixed, 16, 8 * kKiB, "exchange", 0},
    {Kind::all_reduce, Where::mixed, kAnyRanks, kAny, "direct", 256 * kKiB},

    {Kind::reduce, Where::fit, kAnyRanks, 8 * kKiB, "one_shot", 0},
    {Kind::reduce, Where::fit, kAnyRanks, kAny, "slice_owner", 512 * kKiB},
    {Kind::reduce, Where::oversubscribed, kAnyRanks, 16 * kKiB, "one_shot", 0},
    {Kind::reduce, Where::oversubscribed, kAnyRanks, kAny, "slice_owner", 256 * kKiB},
    {Kind::reduce, Where::spread, 2, kAny, "direct", 256 * kKiB},
    {Kind::reduce, Where::spread, 16, 32 * kKiB, "direct", 256 * kKiB},
    {Kind::reduce, Where::spread, kAnyRanks, 16 * kKiB, "binomial", 0},
    {Kind::reduce, Where::spread, kAnyRanks, kAny, "owners", 256 * kKiB},
    {Kind::reduce, Where::mixed, 2, kAny, "direct", 256 * kKiB},
    {Kind::reduce, Where::mixed, kAnyRanks, 32 * kKiB, "two_level", 256 * kKiB},
    {Kind::reduce, Where::mixed, 16, 32 * kKiB, "direct", 256 * kKiB},
    {Kind::reduce, Where::mixed, kAnyRanks, 16 * kKiB, "binomial", 0},
    {Kind::reduce, Where::mixed, kAnyRanks, kAny, "owners", 256 * kKiB},

    {Kind::all_gather, Where::fit, kAnyRanks, 128 * kKiB, "one_shot", 0},
    {Kind::all_gather, Where::fit, kAnyRanks, kAny, "chunked", 128 * kKiB},
    {Kind::all_gather, Where::oversubscribed, kAnyRanks, 256 * kKiB, "one_shot", 0},
    {Kind::all_gather, Where::oversubscribed, kAnyRanks, kAny, "chunked", 256 * kKiB},
    {Kind::all_gather, Where::spread, 16, kAny, "direct", 0},
    {Kind::all_gather, Where::spread, kAnyRanks, 64 * kKiB, "bruck", 0},
    {Kind::all_gather, Where::spread, kAnyRanks, kAny, "direct", 0},
    {Kind::all_gather, Where::mixed, kAnyRanks, kAny, "two_level", 512 * kKiB},

    {Kind::gather, Where::fit, kAnyRanks, 128 * kKiB, "one_shot", 0},
    {Kind::gather, Where::fit, kAnyRanks, kAny, "chunked", 512 * kKiB},
    {Kind::gather, Where::oversubscribed, kAnyRanks, 256 * kKiB, "one_shot", 0},
    {Kind::gather, Where::oversubscribed, kAnyRanks, kAny, "chunked", 256 * kKiB},
    {Kind::gather, Where::spread, 16, kAny, "direct", 0},
    {Kind::gather, Where::spread, kAnyRanks, 64 * kKiB, "binomial", 0},
    {Kind::gather, Where::spread, kAnyRanks, kAny, "direct", 0},
    {Kind::gather, Where::mixed, kAnyRanks, 64 * kKiB, "two_level", 0},
    {Kind::gather, Where::mixed, kAnyRanks, kAny, "direct", 0},
    // With counts.
    {Kind::gather, Where::fit, kAnyRanks, kAny, "direct", 0},
    {Kind::gather, Where::oversubscribed, kAnyRanks, kAny, "direct", 0},

    {Kind::scatter, Where::fit, kAnyRanks, 128 * kKiB, "one_shot", 0},
    {Kind::scatter, Where::fit, kAnyRanks, kAny, "chunked", 512 * kKiB},
    {Kind::scatter, Where::oversubscribed, kAnyRanks, 256 * kKiB, "one_shot", 0},
    {Kind::scatter, Where::oversubscribed, kAnyRanks, kAny, "chunked", 512 * kKiB},
    {Kind::scatter, Where::spread, 16, kAny, "direct", 0},
    {Kind::scatter, Where::spread, kAnyRanks, 64 * kKiB, "binomial", 0},
    {Kind::scatter, Where::spread, kAnyRanks, kAny, "direct", 0},
    {Kind::scatter, Where::mixed, kAnyRanks, 64 * kKiB, "two_level", 0},
    {Kind::scatter, Where::mixed, kAnyRanks, kAny, "direct", 0},
    // With counts.
    {Kind::scatter, Where::fit, kAnyRanks, kAny, "direct", 0},
    {Kind::scatter, Where::oversubscribed, kAnyRanks, kAny, "direct", 0},

    {Kind::reduce_scatter, Where::fit, kAnyRanks, 64 * kKiB, "one_shot", 0},
    {Kind::reduce_scatter, Where::fit, kAnyRanks, kAny, "chunked", 512 * kKiB},
    {Kind::reduce_scatter, Where::oversubscribed, kAnyRanks, 256 * kKiB, "one_shot", 0},
    {Kind::reduce_scatter, Where::oversubscribed, kAnyRanks, kAny, "chunked", 512 * kKiB},
    {Kind::reduce_scatter, Where::spread, kAnyRanks, kAny, "direct", 256 * kKiB},
    {Kind::reduce_scatter, Where::mixed, kAnyRanks, kAny, "two_level", 512 * kKiB},
    {Kind::reduce_scatter, Where::mixed, kAnyRanks, kAny, "direct", 256 * kKiB},  // narrow, uneven

    {Kind::all_to_all, Where::fit, kAnyRanks, 64 * kKiB, "one_shot", 0},
    {Kind::all_to_all, Where::fit, kAnyRanks, kAny, "chunked", 256 * kKiB},
    {Kind::all_to_all, Where::oversubscribed, kAnyRanks, 256 * kKiB, "one_shot", 0},
    {Kind::all_to_all, Where::oversubscribed, kAnyRanks, kAny, "chunked", 512 * kKiB},
    {Kind::all_to_all, Where::spread, kAnyRanks, kAny, "direct_all_to_all", 0},
    {Kind::all_to_all, Where::mixed, kAnyRanks, kAny, "direct_all_to_all", 0},
    // With splits.
    {Kind::all_to_all, Where::fit, kAnyRanks, kAny, "direct_all_to_all", 0},
    {Kind::all_to_all, Where::oversubscribed, kAnyRanks, kAny, "direct_all_to_all", 0},

    {Kind::scan, Where::fit, kAnyRanks, 8 * kKiB, "one_shot", 0},
    {Kind::scan, Where::fit, kAnyRanks, kAny, "chunked", 256 * kKiB},
    {Kind::scan, Where::oversubscribed, kAnyRanks, 16 * kKiB, "one_shot", 0},
    {Kind::scan, Where::oversubscribed, kAnyRanks, kAny, "chunked", 256 * kKiB},
    {Kind::scan, Where::spread, 16, 8 * kKiB, "exchange", 0},
    {Kind::scan, Where::spread, kAnyRanks, kAny, "direct", 256 * kKiB},
    {Kind::scan, Where::mixed, 16, 8 * kKiB, "exchange", 0},
    {Kind::scan, Where::mixed, kAnyRanks, kAny, "direct", 256 * kKiB},

    {Kind::exclusive_scan, Where::fit, kAnyRanks, 8 * kKiB, "one_shot", 0},
    {Kind::exclusive_scan, Where::fit, kAnyRanks, kAny, "chunked", 256 * kKiB},
    {Kind::exclusive_scan, Where::oversubscribed, kAnyRanks, 16 * kKiB, "one_shot", 0},
    {Kind::exclusive_scan, Where::oversubscribed, kAnyRanks, kAny, "chunked", 256 * kKiB},
    {Kind::exclusive_scan, Where::spread, 16, 8 * kKiB, "exchange", 0},
    {Kind::exclusive_scan, Where::spread, kAnyRanks, kAny, "direct", 256 * kKiB},
    {Kind::exclusive_scan, Where::mixed, 16, 8 * kKiB, "exchange", 0},
    {Kind::exclusive_scan, Where::mixed, kAnyRanks, kAny, "direct", 256 * kKiB},
};

/// True if the algorithm gives a correct result there, perhaps with another order of additions.
bool may_run(const Algorithm& a, const Query& q, const Topology& t) noexcept {
  return (!a.one_host || t.one_host()) &&
         (!q.narrow || !traits_of(q.kind).reduces || a.single_pass) &&
         (!q.uneven || traits_of(q.kind).uneven != Uneven::pairwise || a.any_splits) &&
         (!a.even_blocks || q.even_blocks);
}

Choice choose(const Algorithm& a, std::size_t chunk_bytes, const Rule* rule) noexcept {
  return {a.name, chunk_bytes, a.build, rule};
}

/// The chunk for an algorithm that was asked for by name. Without chunks two_level uses another
/// kind of exchange.
std::size_t default_chunk(const Query& q) noexcept {
  if (q.uneven || q.bytes <= 8 * kKiB) return 0;
  return q.bytes < 2 * kMiB ? 128 * kKiB : 256 * kKiB;
}

struct Pair {
  std::string_view kind;
  std::string_view algorithm;
};

/// Takes the first "kind:algorithm" off the text.
Pair next_pair(std::string_view& text) noexcept {
  const std::size_t comma = text.find(',');
  const std::string_view item = text.substr(0, comma);
  text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  const std::size_t colon = item.find(':');
  if (colon == std::string_view::npos) return {base::without_blanks(item), {}};
  return {base::without_blanks(item.substr(0, colon)),
          base::without_blanks(item.substr(colon + 1))};
}

/// The kind of this name, if there are algorithms for it.
std::optional<Kind> kind_named(std::string_view name) noexcept {
  for (const Algorithm& a : kAlgorithms) {
    if (traits_of(a.kind).name == name) return a.kind;
  }
  return std::nullopt;
}

/// "barrier, broadcast, ..."
std::string kinds_by_name() {
  std::string names;
  for (int k = 0; k < kKindCount; ++k) {
    const std::string_view name = kKindTraits[k].name;
    if (kind_named(name)) names += base::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return names;
}

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept {
  for (const Algorithm& a : kAlgorithms) {
    if (a.kind == kind && a.name == name) return &a;
  }
  return nullptr;
}

std::span<const Rule> rules() noexcept { return kTable; }

Where where_of(const Topology& t, int cpus) noexcept {
  if (t.one_host()) return t.size() <= cpus ? Where::fit : Where::oversubscribed;
  return t.max_per_host == 1 ? Where::spread : Where::mixed;
}

Refusal refusal_of(const Rule& rule, const Query& q, const Topology& topology) noexcept {
  if (rule.kind != q.kind || rule.where != where_of(topology, q.cpus)) return Refusal::elsewhere;
  if (topology.size() > rule.ranks) return Refusal::ranks;
  if (q.bytes > rule.bytes && !q.uneven) return Refusal::bytes;
  const Algorithm& a = *find_algorithm(q.kind, rule.algorithm);
  if (q.rounds && a.order != OrderClass::binomial) return Refusal::order;
  return may_run(a, q, topology) ? Refusal::none : Refusal::cannot_run;
}

Choice select(const Query& q, const Topology& topology) {
  std::string_view asked = q.override_text;
  while (!asked.empty()) {
    const Pair pair = next_pair(asked);
    if (pair.kind != traits_of(q.kind).name) continue;
    const Algorithm* const a = find_algorithm(q.kind, pair.algorithm);
    if (a != nullptr && may_run(*a, q, topology)) return choose(*a, default_chunk(q), nullptr);
  }
  for (const Rule& rule : kTable) {
    if (refusal_of(rule, q, topology) != Refusal::none) continue;
    return choose(*find_algorithm(q.kind, rule.algorithm), rule.chunk_bytes, &rule);
  }
  return {};  // never reached: the last rows of each kind and place have no limits
}

Outcome check_override(std::string_view text) {
  while (!text.empty()) {
    const Pair pair = next_pair(text);
    const std::optional<Kind> kind = kind_named(pair.kind);
    if (!kind) {
      return Outcome(Errc::invalid_argument,
                     base::format("TUTTI_ALGO: \"{}\" is no operation; write for instance "
                                  "all_reduce:ring,broadcast:binomial_broadcast (operations: {})",
                                  pair.kind, kinds_by_name()));
    }
    if (find_algorithm(*kind, pair.algorithm) != nullptr) continue;
    std::string names;
    for (const Algorithm& a : kAlgorithms) {
      if (a.kind == *kind) names += base::format("{}{}", names.empty() ? "" : ", ", a.name);
    }
    return Outcome(Errc::invalid_argument,
                   base::format("TUTTI_ALGO: {} has no algorithm \"{}\"; there are {}", pair.kind,
                                pair.algorithm, names));
  }
  return {};
}

}  // namespace tutti::plan
