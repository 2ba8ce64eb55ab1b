#include <gmock/gmock.h>

#include <random>

#include "engine/group_table.hpp"
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
  const Outcome outcome = engine.outcome(group, none).value_or(Outcome());
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
    for (const int rank : {0, 1}) host.make(rank, 1);
    for (const int rank : {0, 1}) host.close(rank, 1);
    host.look_around();
    EXPECT_EQ(host.leaked(0, 4), 1);
    if (dies) {
      for (int rank = 0; rank < 2; ++rank) host.engine(rank).local_peer_died(2);
    } else {
      // release: pairs with is_gone.
      host.regions(2).control().words().left.store(1, std::memory_order_release);
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
  host.engine(0).break_group(host.group(0, 1), Outcome(Errc::aborted, "enough of it"));
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
    for (const int rank : {0, 1}) {
      const TensorView buffer = TensorView(base::at(buffers, rank));
      host.engine(rank).submit(host.group(rank, id), {.kind = Kind::all_reduce,
                                                      .timeout = std::chrono::seconds(1),
                                                      .input = buffer,
                                                      .output = buffer});
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
    for (std::size_t left = size * 2 * kGroups; left > 0;) {
      const auto rank = static_cast<std::size_t>(random() % size);
      // Often several at once: some run ahead of the others.
      for (std::size_t n = random() % 4; n > 0 && at[rank] < steps[rank].size(); --n) {
        const Step step = steps[rank][at[rank]];
        if (together && !step.makes && makers[step.id] < host.size()) break;
        // A rank that runs ahead keeps what the others have not made: not more than there is room.
        if (step.makes && step.id > 64 && makers[step.id - 64] < host.size()) break;
        ++at[rank];
        --left;
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

// --- The table of such groups, without engines.

Outcome pages_answer;  // what the system answers

/// One rank: its table, and the staging that it hands out.
struct Tables {
  Tables(verify::sim::Memory& memory, int rank, int size) {
    world.rank = rank;
    world.size = size;
    world.regions = &memory.regions(rank);
    world.host_of.assign(static_cast<std::size_t>(size), 0);
    world.local_of = memory.local_of(rank);
    world.whereabouts.assign(static_cast<std::size_t>(size), "");
    world.settings = 5;
    world.populate = [](std::byte*, std::size_t) { return pages_answer; };
  }
  Result<Group*> try_to_make(std::uint64_t id, std::vector<int> ranks) {
    return table.make({.id = id, .name = "group " + std::to_string(id), .ranks = std::move(ranks)});
  }
  Group& make(std::uint64_t id, std::vector<int> ranks) {
    return *try_to_make(id, std::move(ranks)).value();
  }
  /// The rank closes it, as it does with one that has ended.
  void close(std::uint64_t id) {
    table.note_closed(id);
    table.retire(*table.find(id));
  }

  World world;
  Staging staging{nullptr, [](Group&, std::uint64_t) { return false; },
                  [](std::byte*, std::size_t) { return Outcome(); }};  // only offsets are asked for
  GroupTable table{world, staging};
};

class GroupTableTest : public testing::Test {
 protected:
  GroupTableTest() { pages_answer = Outcome(); }

  verify::sim::Memory memory_{{0, 0, 0}};
  Tables first_{memory_, 0, 3};
  Tables second_{memory_, 1, 3};
};

TEST_F(GroupTableTest, FindsAGroupByItsIdUntilItIsClosed) {
  const Group& made = first_.make(7, {0, 2});
  EXPECT_EQ(first_.table.find(7), &made);
  EXPECT_EQ(first_.table.find(8), nullptr);
  EXPECT_EQ(first_.table.by_id().size(), 1U);
  EXPECT_FALSE(first_.table.is_closed(7));
  first_.close(7);
  EXPECT_EQ(first_.table.find(7), nullptr);
  EXPECT_TRUE(first_.table.is_closed(7));
  EXPECT_FALSE(first_.table.is_closed(8));
}

TEST_F(GroupTableTest, KnowsItsMembersByTheirPlace) {
  Group& group = second_.make(7, {2, 1});
  EXPECT_EQ(group.size, 2);
  EXPECT_EQ(group.rank, 1);
  EXPECT_EQ(group.local_members, std::vector<int>{0});
  EXPECT_EQ(group.rank_of(2), 0);
  EXPECT_EQ(group.rank_of(1), 1);
  EXPECT_EQ(group.rank_of(0), -1);
  EXPECT_EQ(group.no_memory.culprit(), 1);
}

TEST_F(GroupTableTest, ShowsTheLinesOfANewGroupWithoutThoseOfAnother) {
  Group& old = first_.make(7, {0});
  old.block->line(63).epoch.store(3);
  old.block->counter(7, 1).value.store(9);
  old.block->note.length = 4;
  memory_.regions(0).control().break_word(old.slot).store(1);
  const int slot = old.slot;
  first_.close(7);
  Group& group = first_.make(8, {0});
  ASSERT_EQ(group.slot, slot) << "nobody else had it";
  EXPECT_EQ(memory_.regions(0).control().group_id(slot).load(), 8U);
  EXPECT_EQ(group.block->line(63).epoch.load(), 0U);
  EXPECT_EQ(group.block->counter(7, 1).value.load(), 0U);
  EXPECT_EQ(group.block->done.value.load(), 0U);
  EXPECT_EQ(group.block->note.length, 0U);
  EXPECT_EQ(memory_.regions(0).control().break_word(slot).load(), 0U);
}

TEST_F(GroupTableTest, ASlotIsFreeOnceAllMembersHaveGivenTheGroupUp) {
  const int slot = first_.make(7, {0, 1}).slot;
  second_.make(7, {0, 1});
  first_.close(7);
  EXPECT_NE(first_.make(8, {0}).slot, slot) << "rank 1 may read our lines";
  second_.close(7);
  EXPECT_EQ(first_.make(9, {0}).slot, slot);
}

TEST_F(GroupTableTest, TheStagingOfAGroupIsFreeWithItsSlot) {
  Group& group = first_.make(7, {0, 1});
  second_.make(7, {0, 1});
  constexpr std::size_t kMost = transport::shm::kStagingBytes / 4 * 3;
  Result<std::size_t> taken = first_.staging.take(group, 1, kMost);
  ASSERT_TRUE(taken.ok());
  second_.close(7);
  first_.close(7);
  Group& next = first_.make(8, {0});
  Result<std::size_t> again = first_.staging.take(next, 1, kMost);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *taken) << "the ring is free again";
}

TEST_F(GroupTableTest, TheErrorSaysThatOtherRanksHoldSlots) {
  for (std::uint64_t id = 1; id <= transport::shm::kMaxGroups; ++id) first_.make(id, {0, 1});
  for (const std::uint64_t id : {5U, 6U}) {
    second_.make(id, {0, 1});
    first_.close(id);
  }
  const Outcome full = first_.try_to_make(9999, {0}).status();
  EXPECT_THAT(std::string(full.message()),
              testing::HasSubstr("It has destroyed 2 of them, which other ranks of its host have "
                                 "not (the first is '"));
}

TEST_F(GroupTableTest, SlotsAreCountedAndTheirMemoryIsAskedFor) {
  for (std::uint64_t id = 1; id <= transport::shm::kMaxGroups; ++id)
    ASSERT_TRUE(first_.try_to_make(id, {0}).ok()) << id;
  const Outcome full = first_.try_to_make(9999, {0}).status();
  EXPECT_EQ(full.code(), Errc::resource);
  EXPECT_EQ(full.message().find("It has destroyed"), std::string_view::npos) << full.message();
  first_.close(3);
  pages_answer = Outcome(Errc::resource, "no pages");
  Result<Group*> none = first_.try_to_make(9999, {0});
  EXPECT_EQ(none.status().message(), "no pages");
  EXPECT_EQ(first_.table.find(9999), nullptr);
  pages_answer = Outcome();
  EXPECT_EQ(first_.make(9999, {0}).slot, 2) << "the one that was closed";
}

}  // namespace
}  // namespace tutti::engine
