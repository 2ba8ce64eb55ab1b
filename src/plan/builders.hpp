#pragma once

#include <cstddef>

#include "plan/schedule.hpp"
#include "plan/topology.hpp"

// Builders: pure functions of data that all ranks agree about. Each makes the schedule of one rank.
// docs/design/algorithms.md describes each algorithm with rounds, volume and source.
namespace tutti::plan {

/// The arguments of a builder. Apart from `rank` all ranks have the same. There is no byte count: a
/// schedule serves a size class, that is, all sizes for which select() chooses the same algorithm
/// and chunk length.
struct Shape {
  int rank = 0;
  int size = 1;
  int root = 0;
  const Topology* topology = nullptr;
  std::size_t chunk_bytes = 0;

  /// The rank `places` after this one, modulo size; before it if `places` is negative.
  [[nodiscard]] constexpr int rank_after(int places) const noexcept {
    return (rank + places % size + size) % size;
  }
  /// Places count ranks from the root on, for the tree of a rooted operation.
  [[nodiscard]] constexpr int place_of(int of_rank) const noexcept {
    return (of_rank - root + size) % size;
  }
  [[nodiscard]] constexpr int rank_at(int place) const noexcept { return (place + root) % size; }
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
/// all_reduce: each rank stages; one that finds all lines and no result reduces for all.
[[nodiscard]] Schedule shared_one_shot_all_reduce(const Shape& s);
/// all_reduce: in chunks; each rank owns a slice of each chunk, reduces it, all copy it out.
[[nodiscard]] Schedule slice_owner_all_reduce(const Shape& s);
/// reduce: everybody stages, the root reduces everything.
[[nodiscard]] Schedule one_shot_reduce(const Shape& s);
/// reduce: in chunks; each rank owns a slice of each chunk and reduces it, the root copies it out.
[[nodiscard]] Schedule slice_owner_reduce(const Shape& s);
/// scan: everybody stages, each reduces what the ranks up to it have staged.
[[nodiscard]] Schedule one_shot_scan(const Shape& s);
[[nodiscard]] Schedule one_shot_exclusive_scan(const Shape& s);
[[nodiscard]] Schedule chunked_scan(const Shape& s);
[[nodiscard]] Schedule chunked_exclusive_scan(const Shape& s);
/// all_gather: everybody stages its block and copies the others'.
[[nodiscard]] Schedule one_shot_all_gather(const Shape& s);
[[nodiscard]] Schedule chunked_all_gather(const Shape& s);
/// gather: everybody stages its block, the root copies.
[[nodiscard]] Schedule one_shot_gather(const Shape& s);
[[nodiscard]] Schedule chunked_gather(const Shape& s);
/// scatter: the root stages all blocks, each rank copies its own.
[[nodiscard]] Schedule one_shot_scatter(const Shape& s);
[[nodiscard]] Schedule chunked_scatter(const Shape& s);
/// reduce_scatter: everybody stages all blocks and reduces its own.
[[nodiscard]] Schedule one_shot_reduce_scatter(const Shape& s);
[[nodiscard]] Schedule chunked_reduce_scatter(const Shape& s);
/// all_to_all: everybody stages all blocks and copies those for it. Even blocks only.
[[nodiscard]] Schedule one_shot_all_to_all(const Shape& s);
[[nodiscard]] Schedule chunked_all_to_all(const Shape& s);

// Messages: any pair of ranks, whatever lies between them.
/// barrier: a token to everybody (direct).
[[nodiscard]] Schedule direct_barrier(const Shape& s);
/// barrier by dissemination: ceil(log2 P) rounds.
[[nodiscard]] Schedule dissemination_barrier(const Shape& s);
/// broadcast: the root sends everything to everybody.
[[nodiscard]] Schedule direct_broadcast(const Shape& s);
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
/// all_reduce: sums of 2, 4, 8, ... ranks in pairs. For small ones on many hosts.
[[nodiscard]] Schedule doubling_all_reduce(const Shape& s);
/// all_reduce: a ring (reduce-scatter, all_gather). OrderClass::other. Only asked for by name.
[[nodiscard]] Schedule ring_all_reduce(const Shape& s);
/// reduce: everybody sends everything to the root, in chunks.
[[nodiscard]] Schedule direct_reduce(const Shape& s);
/// reduce: direct reduce-scatter, then gather to the root, in chunks.
[[nodiscard]] Schedule owners_reduce(const Shape& s);
/// reduce: along the tree of additions, bent so that it ends at the root.
[[nodiscard]] Schedule binomial_reduce(const Shape& s);
/// scan: everybody sends everything to the higher ranks: one latency.
[[nodiscard]] Schedule exchange_scan(const Shape& s);
[[nodiscard]] Schedule exchange_exclusive_scan(const Shape& s);
/// scan: each rank owns a part, makes the results of all ranks for it and sends them.
[[nodiscard]] Schedule direct_scan(const Shape& s);
[[nodiscard]] Schedule direct_exclusive_scan(const Shape& s);
/// all_gather: everybody sends its block to everybody.
[[nodiscard]] Schedule direct_all_gather(const Shape& s);
/// all_gather: ceil(log2 P) rounds, in each of which twice as many blocks are sent.
[[nodiscard]] Schedule bruck_all_gather(const Shape& s);
/// all_gather: blocks travel around.
[[nodiscard]] Schedule ring_all_gather(const Shape& s);
/// gather: everybody sends its block to the root.
[[nodiscard]] Schedule direct_gather(const Shape& s);
/// gather along a binomial tree.
[[nodiscard]] Schedule binomial_gather(const Shape& s);
/// scatter: the root sends each rank its block.
[[nodiscard]] Schedule direct_scatter(const Shape& s);
/// scatter along a binomial tree.
[[nodiscard]] Schedule binomial_scatter(const Shape& s);
/// reduce_scatter: everybody sends each rank its block, in chunks; it reduces them.
[[nodiscard]] Schedule direct_reduce_scatter(const Shape& s);
/// reduce_scatter: sums travel around. OrderClass::other. Only asked for by name.
[[nodiscard]] Schedule ring_reduce_scatter(const Shape& s);
/// reduce_scatter: half of what is left to a partner in each round. OrderClass::other. Only asked
/// for by name.
[[nodiscard]] Schedule halving_reduce_scatter(const Shape& s);
/// all_to_all: everybody sends each rank its block, whatever the others' blocks are.
[[nodiscard]] Schedule direct_all_to_all(const Shape& s);

// Both: several hosts, several ranks on some of them.
/// all_reduce: reduce inside the host, exchange between leaders, hand out inside the host.
[[nodiscard]] Schedule two_level_all_reduce(const Shape& s);
/// all_gather: each rank exchanges with its counterparts on other hosts, hands out inside the host.
[[nodiscard]] Schedule two_level_all_gather(const Shape& s);
/// reduce_scatter: reduce inside the host, exchange with counterparts on other hosts.
[[nodiscard]] Schedule two_level_reduce_scatter(const Shape& s);
/// reduce, gather, scatter: inside the host by staging, one message for a host. Small ones.
[[nodiscard]] Schedule two_level_reduce(const Shape& s);
[[nodiscard]] Schedule two_level_gather(const Shape& s);
[[nodiscard]] Schedule two_level_scatter(const Shape& s);
[[nodiscard]] Schedule two_level_broadcast(const Shape& s);
[[nodiscard]] Schedule two_level_barrier(const Shape& s);

}  // namespace tutti::plan
