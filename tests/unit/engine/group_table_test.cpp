#include "engine/group_table.hpp"

#include <gmock/gmock.h>

#include "engine/p2p_matcher.hpp"
#include "verify/sim/memory.hpp"

// The groups of ranks of one host, without engines. GroupSlots tries the same with them, in many
// orders.
namespace tutti::engine {
namespace {

Status pages_answer;  // what the system answers

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
                  [](std::byte*, std::size_t) { return Status(); }};  // only offsets are asked for
  GroupTable table{world, staging};
};

class GroupTableTest : public testing::Test {
 protected:
  GroupTableTest() { pages_answer = Status(); }

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
  old.block->slots[3].line.epoch.store(3);
  old.block->slots[3].counters[0].value.store(9);
  old.block->note.length = 4;
  memory_.regions(0).page().break_words[old.slot].store(1);
  const int slot = old.slot;
  first_.close(7);
  Group& group = first_.make(8, {0});
  ASSERT_EQ(group.slot, slot) << "nobody else had it";
  EXPECT_EQ(memory_.regions(0).group_id(slot).load(), 8U);
  EXPECT_EQ(group.block->slots[3].line.epoch.load(), 0U);
  EXPECT_EQ(group.block->slots[3].counters[0].value.load(), 0U);
  EXPECT_EQ(group.block->done.value.load(), 0U);
  EXPECT_EQ(group.block->note.length, 0U);
  EXPECT_EQ(memory_.regions(0).page().break_words[slot].load(), 0U);
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
  const Status full = first_.try_to_make(9999, {0}).status();
  EXPECT_THAT(std::string(full.message()),
              testing::HasSubstr("It has destroyed 2 of them, which other ranks of its host have "
                                 "not (the first is '"));
}

TEST_F(GroupTableTest, SlotsAreCountedAndTheirMemoryIsAskedFor) {
  for (std::uint64_t id = 1; id <= transport::shm::kMaxGroups; ++id)
    ASSERT_TRUE(first_.try_to_make(id, {0}).ok()) << id;
  const Status full = first_.try_to_make(9999, {0}).status();
  EXPECT_EQ(full.code(), Errc::resource);
  EXPECT_EQ(full.message().find("It has destroyed"), std::string_view::npos) << full.message();
  first_.close(3);
  pages_answer = Status(Errc::resource, "no pages");
  Result<Group*> none = first_.try_to_make(9999, {0});
  EXPECT_EQ(none.status().message(), "no pages");
  EXPECT_EQ(first_.table.find(9999), nullptr);
  pages_answer = Status();
  EXPECT_EQ(first_.make(9999, {0}).slot, 2) << "the one that was closed";
}

}  // namespace
}  // namespace tutti::engine
