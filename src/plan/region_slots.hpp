#pragma once

#include "plan/program.hpp"

// Parts that the algorithms through shared memory have in common.
namespace tutti::plan {

inline constexpr int kChunkSlots = 4;  ///< chunks of a rank that may be staged at a time

// The counters of these algorithms. Each algorithm says which rank counts.
inline constexpr int kStaged = 0;  ///< chunks staged since the first
inline constexpr int kTaken = 1;   ///< chunks copied out
inline constexpr int kSummed = 1;  ///< chunks of which a rank's own part is added up

/// Stages the parts of a chunk that the other ranks reduce. Our own part is reduced directly from
/// the input.
inline void stage_others(Program& p, Expr slot, Expr which, const Shape& s) {
  constexpr int kPieces = 16;  // with more ranks a chunk is staged as a whole, in one step
  if (s.size > kPieces) {
    p.copy(p.stage(slot, chunk(which)), input(chunk(which)));
    return;
  }
  for (int k = 1; k < s.size; ++k) {
    const Slice theirs = chunk_part(which, s.rank_after(k), s.size);
    p.copy(p.stage(slot, theirs), input(theirs));
  }
}

}  // namespace tutti::plan
