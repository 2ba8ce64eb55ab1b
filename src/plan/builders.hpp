#pragma once

#include <cstddef>

#include "plan/schedule.hpp"
#include "plan/topology.hpp"

// Builders: pure functions of data that all ranks agree about. Each makes the schedule of one rank.
// docs/algorithms.md tells each algorithm with rounds, volume and source.
namespace tutti::plan {

/// What a builder may look at. Nothing local to one rank, no byte count below a size class.
struct Shape {
  int rank = 0;
  int size = 1;
  int root = 0;
  const Topology* topology = nullptr;
  std::size_t chunk_bytes = 0;
};

// Shared memory: one host.
/// barrier: publish, await every line.
[[nodiscard]] Schedule region_barrier(const Shape& s);
/// broadcast: the root stages everything and publishes; the others copy. Everything in one slot.
[[nodiscard]] Schedule region_broadcast_one_shot(const Shape& s);
/// broadcast in chunks through a few slots.
[[nodiscard]] Schedule region_broadcast_chunked(const Shape& s);
/// all_reduce: everybody stages, everybody reduces everything.
[[nodiscard]] Schedule one_shot_all_reduce(const Shape& s);
/// all_reduce: everybody stages; whoever finds all lines and no result reduces for all.
[[nodiscard]] Schedule shared_one_shot_all_reduce(const Shape& s);
/// all_reduce: in chunks; each rank owns a slice of each chunk, reduces it, all copy it out.
[[nodiscard]] Schedule slice_owner_all_reduce(const Shape& s);

// Messages: any pair of ranks, whatever lies between them.
/// barrier: a token to everybody (direct).
[[nodiscard]] Schedule direct_barrier(const Shape& s);
/// barrier by dissemination: ceil(log2 P) rounds.
[[nodiscard]] Schedule dissemination_barrier(const Shape& s);
/// broadcast along a binomial tree rooted at `root`, in chunks.
[[nodiscard]] Schedule binomial_broadcast(const Shape& s);
/// broadcast by scatter and all_gather: the bytes of a pipeline in two latencies.
[[nodiscard]] Schedule scatter_all_gather_broadcast(const Shape& s);
/// all_reduce: everybody sends everything to everybody: one latency.
[[nodiscard]] Schedule exchange_all_reduce(const Shape& s);
/// all_reduce: direct reduce-scatter, then direct all_gather: a ring's bytes in two latencies.
[[nodiscard]] Schedule direct_all_reduce(const Shape& s);
/// all_reduce: binomial reduce to rank 0, then binomial broadcast.
[[nodiscard]] Schedule binomial_all_reduce(const Shape& s);
/// all_reduce: a ring (reduce-scatter, all_gather). OrderClass::other. Only asked for by name.
[[nodiscard]] Schedule ring_all_reduce(const Shape& s);

// Both: several hosts, several ranks on some of them.
/// all_reduce: reduce inside the host, exchange between leaders, hand out inside the host.
[[nodiscard]] Schedule two_level_all_reduce(const Shape& s);
[[nodiscard]] Schedule two_level_broadcast(const Shape& s);
[[nodiscard]] Schedule two_level_barrier(const Shape& s);

}  // namespace tutti::plan
