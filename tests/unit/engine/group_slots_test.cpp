#include <gtest/gtest.h>

#include <random>

#include "host.hpp"
#include "support/rotation.hpp"

// Engines of one host that make and close groups in any order: a slot serves another group once all
// members have given the first one up, and none stays taken for ever.
namespace tutti::engine {
namespace {

/// Each of the ranks up to `end` can use its first slots, in any group.
void expect_nothing_leaked(Host& host, int end) {
  host.look_around();
  for (int rank = 0; rank < end; ++rank) EXPECT_EQ(host.leaked(rank, 4), 0) << "rank " << rank;
}

TEST(GroupSlots, NumbersOfOperationsEndInsteadOfBeginningAnew) {
  Host host(1);
  host.make(0, 1);
  Engine& engine = host.engine(0);
  Group& group = host.group(0, 1);
  group.window.skip_to(kLastOperation - 1);
  const Collective barrier{.timeout = std::chrono::seconds(1), .input = {}, .output = {}};
  const std::uint64_t last = engine.submit(group, barrier);
  EXPECT_EQ(last, kLastOperation);
  EXPECT_FALSE(engine.may_have_failed(group, last));
  const std::uint64_t none = engine.submit(group, barrier);
  ASSERT_TRUE(engine.is_done(group, none));
  const Status outcome = engine.outcome(group, none).value_or(Status());
  EXPECT_EQ(outcome.code(), Errc::resource) << outcome.message();
}

TEST(GroupSlots, AMemberBehindOneThatStaysIsLookedForToo) {
  Host host(3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(host.make(rank, 1), 0);
  // Rank 0 is the first to close: rank 1 has not given up yet, and rank 2 uses its slot anew before
  // rank 0 looks again.
  for (int rank = 0; rank < 3; ++rank) host.close(rank, 1);
  for (int rank = 2; rank >= 0; --rank) EXPECT_EQ(host.make(rank, 3), 0) << "rank " << rank;
}

TEST(GroupSlots, AMemberThatMakesTheGroupAfterOthersHaveClosedIt) {
  Host host(3);
  for (const int rank : {0, 1}) host.make(rank, 1);
  for (const int rank : {0, 1}) host.close(rank, 1);
  host.look_around();
  for (const int rank : {0, 1})
    EXPECT_EQ(host.leaked(rank, 4), 1) << "rank 2 may come and read our lines";
  host.make(2, 1);
  host.close(2, 1);
  expect_nothing_leaked(host, 3);
}

TEST(GroupSlots, AMemberThatNeverComesIsWaitedForUntilItLeavesOrDies) {
  for (const bool dies : {false, true}) {
    Host host(3);
    for (int rank = 0; rank < 2; ++rank) host.make(rank, 1);
    for (int rank = 0; rank < 2; ++rank) host.close(rank, 1);
    host.look_around();
    EXPECT_EQ(host.leaked(0, 4), 1);
    if (dies) {
      for (int rank = 0; rank < 2; ++rank) host.engine(rank).local_peer_died(2);
    } else {
      // release: pairs with is_gone.
      host.regions(2).header().left.store(1, std::memory_order_release);
    }
    expect_nothing_leaked(host, 2);
  }
}

TEST(GroupSlots, AMemberThatDiesWithTheGroupOpenHoldsNothing) {
  Host host(4);
  host.make_all(1);
  host.close(0, 1);
  for (const int rank : {0, 1, 2}) host.engine(rank).local_peer_died(3);
  host.close(1, 1);
  host.close(2, 1);
  expect_nothing_leaked(host, 3);
}

TEST(GroupSlots, AKeptHandleOfABrokenGroupHoldsNoSlotOfOthers) {
  Host host(3);
  host.make_all(1);
  for (const int rank : {0, 1}) host.engine(rank).local_peer_died(2);
  host.close(0, 1);  // rank 1 keeps its handle
  host.look_around();
  EXPECT_EQ(host.leaked(0, 4), 0);
  EXPECT_TRUE(host.group(1, 1).broken);
  EXPECT_EQ(host.leaked(1, 4), 1) << "its own";
}

TEST(GroupSlots, AMemberThatHasNotHeardOfTheBreakKeepsTheSlots) {
  Host host(3);
  host.make_all(1);
  host.engine(0).break_group(host.group(0, 1), Status(Errc::aborted, "enough of it"));
  host.engine(2).tick();
  host.close(0, 1);
  EXPECT_EQ(host.leaked(0, 4), 1) << "rank 1 may read our lines, and the reason";
  host.engine(1).tick();
  EXPECT_EQ(std::string(host.group(1, 1).cause.message()), "enough of it");
  EXPECT_EQ(host.leaked(0, 4), 0);
}

TEST(GroupSlots, AKeptHandleOfABrokenGroupHoldsNoStaging) {
  Host host(3);
  host.make_all(1);
  for (int rank = 0; rank < 2; ++rank) host.make(rank, 2, {0, 1});
  std::vector<std::vector<float>> buffers(2, std::vector<float>(64 * 1024));
  const auto all_reduce = [&](std::uint64_t id) {
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<float>& buffer = buffers[static_cast<std::size_t>(rank)];
      host.engine(rank).submit(host.group(rank, id), {.kind = Kind::all_reduce,
                                                      .timeout = std::chrono::seconds(1),
                                                      .input = view_of(buffer),
                                                      .output = view_of(buffer)});
    }
  };
  all_reduce(1);  // rank 2 does not come to it
  ASSERT_GT(host.group(0, 1).window.at(1).region.stage_offset, 0U);
  for (int rank = 0; rank < 2; ++rank) host.engine(rank).local_peer_died(2);
  ASSERT_TRUE(host.group(0, 1).broken);
  for (std::uint64_t seq = 1; seq <= 64; ++seq) {  // several times round the ring
    all_reduce(2);
    host.settle();
    ASSERT_FALSE(host.engine(0).busy() || host.engine(1).busy());
    ASSERT_LT(host.group(0, 2).window.at(seq).region.stage_offset, transport::shm::kHeapOffset)
        << "operation " << seq;
  }
}

/// What one rank does, in its order; how the ranks' steps mix follows from the seed.
struct Step {
  std::uint64_t id = 0;
  bool makes = false;
};

class ManyGroups : public testing::TestWithParam<int> {};

TEST_P(ManyGroups, MadeAndClosedInAnyOrderLeaveNoSlotTaken) {
  constexpr int kMostOpen = 6;
  constexpr std::uint64_t kGroups = 600;
  for (const bool together : {true, false}) {  // is a group closed only once all have made it?
    std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()) * 2 + (together ? 1 : 0));
    Host host(GetParam());
    const auto size = static_cast<std::size_t>(host.size());
    std::vector<std::vector<Step>> steps(size);
    for (std::vector<Step>& all : steps) {
      std::vector<std::uint64_t> open;
      const auto close_one = [&] {
        const std::size_t which = random() % open.size();
        all.push_back({open[which], false});
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      };
      for (std::uint64_t id = 1; id <= kGroups; ++id) {
        while (open.size() >= kMostOpen || (!open.empty() && random() % 2 == 0)) close_one();
        all.push_back({id, true});
        open.push_back(id);
      }
      while (!open.empty()) close_one();
    }
    std::vector<int> makers(kGroups + 1);
    std::vector<std::size_t> at(size);
    const auto left = [&] {
      for (std::size_t rank = 0; rank < size; ++rank) {
        if (at[rank] < steps[rank].size()) return true;
      }
      return false;
    };
    while (left()) {
      const auto rank = static_cast<std::size_t>(random() % size);
      // Often several at once: some run ahead of the others.
      for (std::size_t n = random() % 4; n > 0 && at[rank] < steps[rank].size(); --n) {
        const Step step = steps[rank][at[rank]];
        if (together && !step.makes && makers[step.id] < host.size()) break;
        // A rank that runs ahead keeps what the others have not made: not more than there is room.
        if (step.makes && step.id > 64 && makers[step.id - 64] < host.size()) break;
        ++at[rank];
        if (!step.makes) {
          host.close(static_cast<int>(rank), step.id);
          continue;
        }
        ++makers[step.id];
        ASSERT_GE(host.make(static_cast<int>(rank), step.id), 0) << "group " << step.id;
      }
    }
    host.look_around();
    for (int rank = 0; rank < host.size(); ++rank)
      EXPECT_EQ(host.leaked(rank, 256), 0) << "rank " << rank << ", together " << together;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ManyGroups,
                         testing::ValuesIn(test::sizes_by_rotation({2, 3}, {4, 8})));

}  // namespace
}  // namespace tutti::engine
