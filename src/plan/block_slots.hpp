#pragma once

#include <algorithm>
#include <cstddef>

#include "base/index.hpp"
#include "plan/program.hpp"

// Staging by a rank that has a block for each rank: it stages a chunk of several blocks at a time.
namespace tutti::plan {

inline constexpr int kBlockSlots = 4;  ///< chunks that are staged at a time

/// The slot of block `b` of `count` in round i + ahead.
[[nodiscard]] inline Expr block_slot(Expr b, int ahead, int count) noexcept {
  return window_slot(kBlockSlots, count, ahead, b);
}

/// Sets the cycle for `count` blocks at a time. Their chunks together are about as long as a chunk
/// of other operations.
inline void set_block_slots(Program& p, std::size_t chunk_bytes, int count) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kLeast = 4096;  // below it a step costs more than what it moves
  const std::size_t each = chunk_bytes / base::as_size(count) / kLine * kLine;
  p.chunks_of(std::min(chunk_bytes, std::max(each, kLeast)), kSlotOfBlock);
  p.stage_cycle(kBlockSlots * count, 1, count);
}

/// Stages chunk 0 of the block for each other rank, before the loop over rounds: block b in slot b.
inline void stage_first_chunks(Program& p) {
  p.for_each_other([&](Expr peer) {
    const Slice first = block_chunk(peer, 0);
    p.copy(p.stage(peer, first), input(first));
  });
}

/// Stages chunk i + 1 in round i of that loop.
inline void stage_next_chunks(Program& p, int size) {
  const Expr i = Expr::loop();
  p.for_each_other([&](Expr peer) {
    const Slice next = block_chunk(peer, i + 1);
    p.copy(p.stage(block_slot(peer, 1, size), next), input(next));
  });
}

}  // namespace tutti::plan
