#include <gmock/gmock.h>

#include <latch>

#include "mock_nccl_ranks.hpp"

// Groups on NCCL: what they are made of, on which device they work, and how they end.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// Begins to agree on a group, as new_group does.
Work agree_on_a_group(Backend& backend) {
  const Collective making{.kind = Kind::new_group, .timeout = 500ms, .input = {}, .output = {}};
  return Work(backend.submit(making, false));
}

TEST(MockNcclGroups, MakingAGroupHasOnePlaceAmongTheCallsOfAllRanks) {
  std::vector<Backend*> backends(2);
  std::latch called(1);
  run_nccl(MockNcclWorld(2), {.backends = &backends}, [&](ProcessGroup& world) {
    Backend& own = *backends.at(static_cast<std::size_t>(world.rank()));
    std::vector<float> values(4, 1);
    const int both[] = {0, 1};
    if (world.rank() == 1) called.wait();
    Result<Backend*> child = own.make_child(both, "child");
    ASSERT_TRUE(child.ok());
    Work made = agree_on_a_group(own);
    // Rank 0 goes on before rank 1 has come; rank 1 has made the group before it goes on.
    if (world.rank() == 1) made.synchronize();
    Work reduced = world.all_reduce(on_gpu(values));
    if (world.rank() == 0) {
      called.count_down();
      made.synchronize();
    }
    reduced.synchronize();
    EXPECT_EQ(values, std::vector<float>(4, 2));
    (*child)->drop_reference();
  });
}

TEST(MockNcclGroups, MakingAGroupWaitsForWhatRuns) {
  std::vector<Backend*> backends(1);
  run_nccl(MockNcclWorld(1), {.backends = &backends}, [&](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> values(4, 1);
    stream.hold(true);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    work.wait();  // NCCL has it, and it does not end
    const int own[] = {0};
    Result<Backend*> child = backends[0]->make_child(own, "child");
    ASSERT_TRUE(child.ok());
    Work made = agree_on_a_group(*backends[0]);
    EXPECT_FALSE(made.wait_for(5ms));
    stream.hold(false);
    made.synchronize();
    (*child)->drop_reference();
  });
}

TEST(MockNcclGroups, AGroupIsSplitByColours) {
  MockNcclWorld mock(kRanks);
  run_mock_nccl(mock, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    // Ranks 2 and 0, in this order; rank 1 in none.
    const bool member = world.rank() != 1;
    const std::optional<int> color = member ? std::optional(7) : std::nullopt;
    ProcessGroup group = world.split(color, -world.rank());
    ASSERT_EQ(static_cast<bool>(group), member);
    if (!group) return;
    std::vector<float> both(2, 0);
    std::vector<float> own(1, static_cast<float>(world.rank()));
    finish(group.all_gather(on_gpu(both), on_gpu(own)));
    EXPECT_EQ(both, (std::vector<float>{2, 0}));
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(mock.machine.calls(rank).at("ncclCommSplit"), 1);
    EXPECT_EQ(mock.machine.calls(rank).at("ncclCommInitRankConfig"), 1) << "that of the world";
  }
  expect_clean(mock.machine);
}

TEST(MockNcclGroups, OneDeviceForEachGroupAndItsMessages) {
  run_nccl(MockNcclWorld(1, 2), [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    std::vector<float> got(4, 0);
    const auto refused = [](Work work, const char* text) {
      EXPECT_TRUE(work.wait_for(std::chrono::nanoseconds::max()));
      EXPECT_THAT(std::string(work.error().message()), testing::HasSubstr(text));
    };
    ProcessGroup other = world.new_subgroups(1);
    finish(other.all_reduce(on_gpu(values)));
    refused(other.all_reduce(on_gpu(values, 1)), "cuda:1");
    exchange(world, on_gpu(values), 0, on_gpu(got), 0);
    refused(world.isend(on_gpu(values, 1), 0),
            "its tensors are on cuda:1, but the group works on cuda:0");
  });
}

TEST(MockNcclGroups, CallbacksOfAGroupThatIsGoneAreCalled) {
  MockNcclWorld mock(1);
  std::vector<float> values(4, 1);
  std::atomic<int> told{0};
  run_mock_nccl(mock, [&](ProcessGroup& world) {
    Work work = world.irecv(on_gpu(values), 0);  // nobody sends it
    work.on_done(counts_in(told));
    work.detach();
  });
  EXPECT_EQ(told, 100) << "an error, once";
  EXPECT_EQ(mock.machine.leaks(), "");
}

TEST(MockNcclGroups, CommunicatorsEndInOneOrderOnAllRanks) {
  MockNcclWorld mock(kRanks);
  mock.network.waits_at_the_end = true;
  run_mock_nccl(mock, [&](ProcessGroup& world) {
    std::vector<float> given(4, 1);
    std::vector<float> got(4, 0);
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == world.rank()) continue;
      exchange(world, on_gpu(given), peer, on_gpu(got), peer);
    }
  });
  EXPECT_EQ(mock.network.aborts, 0);
  expect_clean(mock.machine);
}

}  // namespace
}  // namespace tutti::test
