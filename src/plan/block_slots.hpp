#pragma once

#include <algorithm>
#include <cstddef>

#include "plan/program.hpp"

// Staging of a chunk of several blocks at once: by whoever gives something to each rank.
namespace tutti::plan {

inline constexpr int kBlockSlots = 4;  ///< chunks that are staged at a time

/// The slot of block `b` of `count` in round `round_plus` + i.
[[nodiscard]] inline Expr block_slot(Expr b, int round_plus, int count) noexcept {
  b.c0 += std::int64_t{round_plus} * count;
  b.c1 += count;
  b.mod = std::int64_t{kBlockSlots} * count;
  return b;
}

/// The same of the first round, outside of loops over rounds.
[[nodiscard]] inline Expr first_block_slot(Expr b) noexcept { return b; }

/// `count` blocks at a time. A chunk of all of them together is about as long as the chunk of other
/// operations.
inline void set_block_slots(Program& p, std::size_t chunk_bytes, int count) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kLeast = 4096;  // below it a step costs more than what it moves
  const std::size_t each = chunk_bytes / static_cast<std::size_t>(count) / kLine * kLine;
  p.schedule().chunk_bytes = std::min(chunk_bytes, std::max(each, kLeast));
  p.schedule().stage_slots = kBlockSlots * count;
  p.schedule().slot_cycle = kBlockSlots * count;
  p.schedule().slots_per_chunk = count;
  p.schedule().slot_parts = kSlotOfBlock;
}

/// Chunk 0 of what is for each other rank, before the loop over rounds ...
inline void stage_first_chunks(Program& p) {
  p.for_each_other([&](Expr peer) {
    const Slice first = block_chunk(peer, constant(0));
    p.copy(p.stage(first_block_slot(peer), first), input(first));
  });
}

/// ... and chunk i + 1 in round i of it.
inline void stage_next_chunks(Program& p, int size) {
  p.for_each_other([&](Expr peer) {
    const Slice next = block_chunk(peer, var_i(1));
    p.copy(p.stage(block_slot(peer, 1, size), next), input(next));
  });
}

}  // namespace tutti::plan
