#pragma once

#include <cstdint>

#include "plan/schedule.hpp"

namespace tutti::engine {

/// The ranks of a step at the present values of its loop variables: first, first + stride, ...,
/// modulo `size`.
struct RankRow {
  std::int64_t first = 0;
  std::int32_t count = 0;
  std::int32_t stride = 1;
  int size = 1;

  RankRow(const plan::RankSet& set, int of_group, const std::int64_t (&var)[2]) noexcept
      : first(set.first.at(var[0], var[1])), count(set.count), stride(set.stride), size(of_group) {}
  /// All ranks of a group.
  explicit RankRow(int of_group) noexcept : count(of_group), size(of_group) {}

  [[nodiscard]] int operator[](int index) const noexcept {
    std::int64_t rank = first + std::int64_t{index} * stride;
    if (rank < 0 || rank >= size) {  // mostly false, which saves the division
      rank %= size;
      if (rank < 0) rank += size;
    }
    return static_cast<int>(rank);
  }
};

}  // namespace tutti::engine
