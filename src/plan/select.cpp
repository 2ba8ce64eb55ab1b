#include "plan/select.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace tutti::plan {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
constexpr int kAnyRanks = std::numeric_limits<int>::max();

constexpr auto kExact = OrderClass::other;
constexpr auto kTree = OrderClass::binomial;

constexpr std::array kAlgorithms{
    Algorithm{"region_barrier", Kind::barrier, kTree, true, region_barrier},
    Algorithm{"direct_barrier", Kind::barrier, kTree, false, direct_barrier},
    Algorithm{"dissemination_barrier", Kind::barrier, kTree, false, dissemination_barrier},
    Algorithm{"two_level_barrier", Kind::barrier, kTree, false, two_level_barrier},
    Algorithm{"broadcast_one_shot", Kind::broadcast, kTree, true, region_broadcast_one_shot},
    Algorithm{"broadcast_chunked", Kind::broadcast, kTree, true, region_broadcast_chunked},
    Algorithm{"binomial_broadcast", Kind::broadcast, kTree, false, binomial_broadcast},
    Algorithm{"scatter_all_gather_broadcast", Kind::broadcast, kTree, false,
              scatter_all_gather_broadcast},
    Algorithm{"two_level_broadcast", Kind::broadcast, kTree, false, two_level_broadcast},
    Algorithm{"one_shot", Kind::all_reduce, kTree, true, one_shot_all_reduce},
    Algorithm{"shared_one_shot", Kind::all_reduce, kTree, true, shared_one_shot_all_reduce},
    Algorithm{"slice_owner", Kind::all_reduce, kTree, true, slice_owner_all_reduce},
    Algorithm{"exchange", Kind::all_reduce, kTree, false, exchange_all_reduce},
    Algorithm{"direct", Kind::all_reduce, kTree, false, direct_all_reduce},
    Algorithm{"binomial", Kind::all_reduce, kTree, false, binomial_all_reduce},
    Algorithm{"ring", Kind::all_reduce, kExact, false, ring_all_reduce},
    Algorithm{"two_level", Kind::all_reduce, kTree, false, two_level_all_reduce},
};

/// Where the ranks are. fit: one host with a CPU for each; crowded: one host with fewer CPUs;
/// spread: every rank on a host of its own; mixed: several hosts, several ranks on some.
enum class Where : std::uint8_t { fit, crowded, spread, mixed };

/// The first row that fits is taken: at most so many ranks, at most so many bytes.
struct Row {
  Kind kind;
  Where where;
  int ranks;
  std::size_t bytes;
  std::string_view algorithm;
  std::size_t chunk_bytes;
};

constexpr Row kTable[] = {
    {Kind::barrier, Where::fit, kAnyRanks, kAny, "region_barrier", 0},
    {Kind::barrier, Where::crowded, kAnyRanks, kAny, "region_barrier", 0},
    {Kind::barrier, Where::spread, 16, kAny, "direct_barrier", 0},
    {Kind::barrier, Where::spread, kAnyRanks, kAny, "dissemination_barrier", 0},
    {Kind::barrier, Where::mixed, kAnyRanks, kAny, "two_level_barrier", 0},

    {Kind::broadcast, Where::fit, kAnyRanks, 64 * kKiB, "broadcast_one_shot", 0},
    {Kind::broadcast, Where::fit, kAnyRanks, 2 * kMiB, "broadcast_chunked", 128 * kKiB},
    {Kind::broadcast, Where::fit, kAnyRanks, kAny, "broadcast_chunked", 256 * kKiB},
    {Kind::broadcast, Where::crowded, kAnyRanks, 256 * kKiB, "broadcast_one_shot", 0},
    {Kind::broadcast, Where::crowded, kAnyRanks, kAny, "broadcast_chunked", 256 * kKiB},
    {Kind::broadcast, Where::spread, 2, kAny, "binomial_broadcast", 128 * kKiB},
    {Kind::broadcast, Where::spread, kAnyRanks, 32 * kKiB, "binomial_broadcast", 128 * kKiB},
    {Kind::broadcast, Where::spread, 64, kAny, "scatter_all_gather_broadcast", 128 * kKiB},
    {Kind::broadcast, Where::spread, kAnyRanks, kAny, "binomial_broadcast", 128 * kKiB},
    {Kind::broadcast, Where::mixed, kAnyRanks, kAny, "two_level_broadcast", 128 * kKiB},

    {Kind::all_reduce, Where::fit, 2, 32 * kKiB, "one_shot", 0},
    {Kind::all_reduce, Where::fit, kAnyRanks, 4 * kKiB, "one_shot", 0},
    {Kind::all_reduce, Where::fit, kAnyRanks, 2 * kMiB - 1, "slice_owner", 128 * kKiB},
    {Kind::all_reduce, Where::fit, kAnyRanks, kAny, "slice_owner", 256 * kKiB},
    {Kind::all_reduce, Where::crowded, kAnyRanks, 1 * kKiB, "one_shot", 0},
    {Kind::all_reduce, Where::crowded, kAnyRanks, 16 * kKiB, "shared_one_shot", 0},
    {Kind::all_reduce, Where::crowded, kAnyRanks, kAny, "slice_owner", 256 * kKiB},
    {Kind::all_reduce, Where::spread, 16, 8 * kKiB, "exchange", 0},
    {Kind::all_reduce, Where::spread, 64, kAny, "direct", 256 * kKiB},
    {Kind::all_reduce, Where::spread, kAnyRanks, 4 * kKiB, "binomial", 64 * kKiB},
    {Kind::all_reduce, Where::spread, kAnyRanks, kAny, "direct", 256 * kKiB},
    // Leaders exchange everything where it is little (no chunks), else parts of chunks.
    {Kind::all_reduce, Where::mixed, kAnyRanks, 8 * kKiB, "two_level", 0},
    {Kind::all_reduce, Where::mixed, kAnyRanks, kAny, "two_level", 256 * kKiB},
};

Where where_of(const Topology& t, int cpus) noexcept {
  if (t.one_host()) return t.size() <= cpus ? Where::fit : Where::crowded;
  return t.max_per_host == 1 ? Where::spread : Where::mixed;
}

bool may_run(const Algorithm& a, const Topology& t) noexcept { return !a.one_host || t.one_host(); }

Choice choose(const Algorithm& a, std::size_t chunk_bytes) noexcept {
  return {a.name, chunk_bytes, a.build};
}

/// What an algorithm asked for by name gets. For two_level no chunks mean another exchange.
std::size_t default_chunk(std::size_t bytes) noexcept {
  if (bytes <= 8 * kKiB) return 0;
  return bytes < 2 * kMiB ? 128 * kKiB : 256 * kKiB;
}

struct Pair {
  std::string_view kind;
  std::string_view algorithm;
};

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Takes the first "kind:algorithm" off the text.
Pair next_pair(std::string_view& text) noexcept {
  const std::size_t comma = text.find(',');
  const std::string_view item = text.substr(0, comma);
  text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  const std::size_t colon = item.find(':');
  if (colon == std::string_view::npos) return {trimmed(item), {}};
  return {trimmed(item.substr(0, colon)), trimmed(item.substr(colon + 1))};
}

std::optional<Kind> kind_named(std::string_view name) noexcept {
  for (const Kind kind : {Kind::barrier, Kind::broadcast, Kind::all_reduce}) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept {
  for (const Algorithm& a : kAlgorithms) {
    if (a.kind == kind && a.name == name) return &a;
  }
  return nullptr;
}

Choice select(Kind kind, bool rounds, std::size_t bytes, const Topology& topology, int cpus,
              std::string_view override_text) {
  while (!override_text.empty()) {
    const Pair pair = next_pair(override_text);
    if (pair.kind != to_string(kind)) continue;
    const Algorithm* const a = find_algorithm(kind, pair.algorithm);
    if (a != nullptr && may_run(*a, topology)) return choose(*a, default_chunk(bytes));
  }
  const Where where = where_of(topology, cpus);
  for (const Row& row : kTable) {
    if (row.kind != kind || row.where != where) continue;
    if (topology.size() > row.ranks || bytes > row.bytes) continue;
    const Algorithm& a = *find_algorithm(kind, row.algorithm);
    if (rounds && a.order != OrderClass::binomial) continue;
    return choose(a, row.chunk_bytes);
  }
  return {};  // cannot be: the last row of each kind and place takes everything
}

Status check_override(std::string_view text) {
  while (!text.empty()) {
    const Pair pair = next_pair(text);
    const std::optional<Kind> kind = kind_named(pair.kind);
    if (!kind) {
      return Status(
          Errc::invalid_argument,
          fmt::format("TUTTI_ALGO: \"{}\" is no operation; write for instance "
                      "all_reduce:ring,broadcast:binomial_broadcast (operations: barrier, "
                      "broadcast, all_reduce)",
                      pair.kind));
    }
    if (find_algorithm(*kind, pair.algorithm) != nullptr) continue;
    std::string names;
    for (const Algorithm& a : kAlgorithms) {
      if (a.kind == *kind) names += fmt::format("{}{}", names.empty() ? "" : ", ", a.name);
    }
    return Status(Errc::invalid_argument,
                  fmt::format("TUTTI_ALGO: {} has no algorithm \"{}\"; there are {}", pair.kind,
                              pair.algorithm, names));
  }
  return {};
}

}  // namespace tutti::plan
