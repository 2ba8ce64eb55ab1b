#pragma once

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

namespace tutti::test {

/// Makes groups of all ranks and closes each in an order of this rank's own, mostly without having
/// called anything in it. Then every slot but the world's must be free: groups are made until there
/// are 4096. Throws where a slot is not.
inline void churn_groups(ProcessGroup& world, std::uint64_t seed, int count) {
  constexpr std::size_t kMostOpen = 6;
  constexpr int kMostGroups = 4096;
  std::mt19937_64 common(seed);  // alike on all ranks
  std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(world.rank()));
  std::vector<int> all;
  for (int rank = 0; rank < world.size(); ++rank) all.push_back(rank);
  std::vector<ProcessGroup> open;
  const auto close_one = [&] {
    const std::size_t which = own() % open.size();
    if (which + 1 != open.size()) std::swap(open[which], open.back());
    open.pop_back();
  };
  for (int i = 0; i < count; ++i) {
    open.push_back(*world.new_group(all));
    if (common() % 8 == 0) {
      const auto root = static_cast<int>(common() % all.size());
      std::vector<int> value(1, world.rank() == root ? i : -1);
      open.back().broadcast(value, {.root = root}).wait();
      EXPECT_EQ(value[0], i);
    }
    while (open.size() > kMostOpen || (!open.empty() && own() % 2 == 0)) close_one();
  }
  while (!open.empty()) close_one();
  world.barrier().wait();
  std::vector<ProcessGroup> alone;
  for (int i = 1; i < kMostGroups; ++i) alone.push_back(world.new_subgroups(1));
  EXPECT_EQ(alone.size() + 1, std::size_t{kMostGroups});
}

}  // namespace tutti::test
