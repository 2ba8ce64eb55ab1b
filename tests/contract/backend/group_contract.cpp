#include "backend_contract.hpp"

// What every backend promises of groups that are made of others.
namespace tutti::test {

TEST_P(BackendContract, AGroupHasItsMembersInTheOrderOfTheList) {
  run([](ProcessGroup& world) {
    std::vector<int> even;  // the last one first
    for (int r = world.size() - 1; r >= 0; --r) {
      if (r % 2 == 0) even.push_back(r);
    }
    std::optional<ProcessGroup> group = world.new_group(even);
    ASSERT_EQ(group.has_value(), world.rank() % 2 == 0);
    if (group) {
      EXPECT_EQ(group->size(), static_cast<int>(even.size()));
      EXPECT_EQ(group->backend(), world.backend());
      std::vector<int> ranks(even.size());
      const std::vector<int> mine{world.rank()};
      group->all_gather(ranks, mine).wait();
      EXPECT_EQ(ranks, even);
      make_every_call<float>(*group, 33);
    }
    // Those outside took part in making it, and go on as well.
    expect_usable(world);
    if (group) {
      std::optional<ProcessGroup> inner = group->new_group({0});
      ASSERT_EQ(inner.has_value(), group->rank() == 0);
      if (inner) {
        expect_usable(*inner);
        EXPECT_EQ(inner->global_rank(0), even.front());
      }
    }
  });
}

TEST_P(BackendContract, TwoGroupsWorkAtOnce) {
  run([](ProcessGroup& world) {
    std::vector<int> even;
    for (int r = 0; r < world.size(); r += 2) even.push_back(r);
    std::optional<ProcessGroup> group = world.new_group(even);
    for (int i = 0; i < 20; ++i) {
      std::vector<int> all(100, 1);
      std::vector<int> some(100, 1);
      Work first = world.all_reduce(all);
      if (group) group->all_reduce(some).wait();
      first.wait();
      EXPECT_EQ(all, std::vector<int>(100, world.size()));
      EXPECT_EQ(some, std::vector<int>(100, group ? group->size() : 1));
    }
  });
}

TEST_P(BackendContract, IsDividedByColoursAndSizes) {
  run([](ProcessGroup& world) {
    // By colour, the last rank first; every third rank has none.
    const std::optional<int> color =
        world.rank() % 3 == 2 ? std::nullopt : std::optional<int>(world.rank() % 2);
    std::optional<ProcessGroup> group = world.split(color, -world.rank());
    ASSERT_EQ(group.has_value(), color.has_value());
    if (group) {
      std::vector<int> ranks(static_cast<std::size_t>(group->size()));
      const std::vector<int> mine{world.rank()};
      group->all_gather(ranks, mine).wait();
      EXPECT_TRUE(std::is_sorted(ranks.rbegin(), ranks.rend()));
      for (const int rank : ranks) EXPECT_EQ(rank % 2, *color);
      EXPECT_EQ(group->global_rank(group->rank()), world.rank());
    }
    for (int each = 1; each <= world.size(); ++each) {
      if (world.size() % each != 0) {
        EXPECT_THROW((void)world.new_subgroups(each), InvalidArgument);
        continue;
      }
      ProcessGroup part = world.new_subgroups(each);
      std::vector<int> one{1};
      part.all_reduce(one).wait();
      EXPECT_EQ(one[0], each);
      EXPECT_EQ(part.rank(), world.rank() % each);
    }
  });
}

TEST_P(BackendContract, AWorkOutlivesTheHandlesOfItsGroup) {
  run([](ProcessGroup& world) {
    std::vector<int> values(1000, 1);
    Work work = [&] {
      ProcessGroup group = world.new_subgroups(world.size());
      return group.all_reduce(values);
    }();
    work.wait();
    EXPECT_EQ(values, std::vector<int>(1000, world.size()));
    expect_usable(world);
  });
}

}  // namespace tutti::test
