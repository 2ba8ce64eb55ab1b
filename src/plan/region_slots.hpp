#pragma once

#include "plan/program.hpp"

// Parts that the algorithms through shared memory have in common.
namespace tutti::plan {

inline constexpr int kSlots = 4;  ///< chunks of a rank that may be staged at a time

// Their counters. Each algorithm says which rank counts, and what else the counter tells.
inline constexpr int kStaged = 0;  ///< chunks staged since the first
inline constexpr int kTaken = 1;   ///< chunks copied out
inline constexpr int kSummed = 1;  ///< chunks of which a rank's own part is added up

/// Stages what the others will reduce of a chunk. Our own part is reduced straight from the input.
inline void stage_others(Program& p, Expr slot, Expr which, const Shape& s) {
  constexpr int kPieces = 16;  // up to so many ranks a chunk is staged in pieces
  if (s.size > kPieces) {      // not worth so many steps
    p.copy(p.stage(slot, chunk(which)), input(chunk(which)));
    return;
  }
  for (int k = 1; k < s.size; ++k) {
    const Slice theirs = chunk_part(which, s.rank_after(k), s.size);
    p.copy(p.stage(slot, theirs), input(theirs));
  }
}

}  // namespace tutti::plan
