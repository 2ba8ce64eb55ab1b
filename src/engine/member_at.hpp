#pragma once

#include <cstdint>

#include "engine/group.hpp"
#include "plan/schedule.hpp"

namespace tutti::engine {

/// Member `index` of `set` in a group of `size` ranks, where the loops of `op` stand now.
[[nodiscard]] inline int member_at(const plan::RankSet& set, int index, int size,
                                   const Op& op) noexcept {
  std::int64_t rank = set.first.at(op.var[0], op.var[1]) + std::int64_t{index} * set.stride;
  if (rank < 0 || rank >= size) {  // seldom: a division costs more than the rest
    rank %= size;
    if (rank < 0) rank += size;
  }
  return static_cast<int>(rank);
}

}  // namespace tutti::engine
