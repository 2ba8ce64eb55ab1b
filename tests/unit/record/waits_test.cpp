#include "record/waits.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

// For how long ranks were waited for, by records that a test writes.
namespace tutti::record {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kDay = 1'700'000'000 * kSecond;

Record with_groups(int rank, int size) {
  Record record;
  record.rank = rank;
  record.size = size;
  record.read = kDay + 100 * kSecond;
  record.groups.push_back({"world", rank, size, 77});
  return record;
}

/// A call that began `after` seconds, and whose end is known where `ended` is not 0.
void add(Record& record, std::uint64_t seq, std::int64_t after, std::int64_t ended = 0,
         Kind kind = Kind::all_reduce, EntryState state = EntryState::done) {
  Operation operation;
  operation.number = record.written++;
  operation.called = kDay + after * kSecond;
  operation.ended = ended == 0 ? 0 : kDay + ended * kSecond;
  operation.seq = seq;
  operation.group = 0;
  operation.kind = kind;
  operation.input_bytes = 4;
  operation.state = state;
  record.operations.push_back(operation);
}

std::vector<std::int64_t> seconds_of(const std::vector<Record>& records) {
  std::vector<std::int64_t> seconds = waited_for(records);
  for (std::int64_t& one : seconds) one /= kSecond;
  return seconds;
}

TEST(Waits, TheRankThatIsLateIsWaitedForAndNotOneBetween) {
  std::vector<Record> ranks{with_groups(0, 3), with_groups(1, 3), with_groups(2, 3)};
  for (const std::int64_t seq : {1, 2, 3}) {
    // Rank 0 was last seen to wait for 1, and 1 for 2.
    add(ranks[0], static_cast<std::uint64_t>(seq), seq * 10, seq * 10 + 6);
    add(ranks[1], static_cast<std::uint64_t>(seq), seq * 10, seq * 10 + 6);
    add(ranks[2], static_cast<std::uint64_t>(seq), seq * 10 + 5);
    ranks[0].operations.back().waits_for = 1;
  }
  EXPECT_EQ(seconds_of(ranks), (std::vector<std::int64_t>{0, 0, 15}));
  EXPECT_EQ(waited_text(12'340'000'000), "12.3 s");
}

TEST(Waits, TimesOfADamagedRecordDoNotOverflow) {
  std::vector<Record> ranks{with_groups(0, 2), with_groups(1, 2)};
  for (const std::uint64_t seq : {1, 2}) {
    for (Record& rank : ranks) add(rank, seq, 0);
    ranks[0].operations.back().called = 1;
    ranks[1].operations.back().called = 7'000'000'000 * kSecond;
  }
  EXPECT_GE(waited_for(ranks)[1], 7'000'000'000 * kSecond - 1);
}

TEST(Waits, OfTwoThatAreLateBothAreTold) {
  std::vector<Record> ranks{with_groups(0, 3), with_groups(1, 3), with_groups(2, 3)};
  add(ranks[0], 1, 0);  // its end is not known, but nobody has come before the last
  add(ranks[1], 1, 3);
  add(ranks[2], 1, 7);
  EXPECT_EQ(seconds_of(ranks), (std::vector<std::int64_t>{0, 3, 7}));
}

TEST(Waits, ARankThatHasNotComeYetIsWaitedForUntilNow) {
  std::vector<Record> ranks{with_groups(0, 2), with_groups(1, 2)};
  for (Record& rank : ranks) add(rank, 1, 10);
  add(ranks[0], 2, 20, 0, Kind::barrier, EntryState::running);
  EXPECT_EQ(seconds_of(ranks), (std::vector<std::int64_t>{0, 80}));
  // One that has made no call at all.
  ranks[1].operations.clear();
  ranks[1].written = 0;
  EXPECT_EQ(seconds_of(ranks), (std::vector<std::int64_t>{0, 80})) << "the first has ended";
  // Its calls in this group may have been overwritten.
  ranks[1].written = 5000;
  EXPECT_EQ(seconds_of(ranks), (std::vector<std::int64_t>{0, 0}));
}

TEST(Waits, ARankWhoseOperationHasEndedWaitsNoMore) {
  std::vector<Record> ranks{with_groups(0, 2), with_groups(1, 2)};
  add(ranks[0], 1, 0, 2, Kind::broadcast);  // the root, which waits for nobody
  add(ranks[1], 1, 9, 0, Kind::broadcast);
  add(ranks[0], 2, 10, 0, Kind::broadcast);  // has ended at once
  add(ranks[1], 2, 20, 0, Kind::broadcast);
  EXPECT_EQ(seconds_of(ranks), (std::vector<std::int64_t>{0, 2}));
}

TEST(Waits, OperationsOfOtherGroupsAndMessagesAreApart) {
  std::vector<Record> ranks{with_groups(0, 2), with_groups(1, 2)};
  ranks[1].groups.front().id = 78;  // the same place, another group
  add(ranks[0], 1, 0);
  add(ranks[1], 1, 50);
  for (Record& rank : ranks) add(rank, 9, 60 + rank.rank, 0, Kind::send);
  EXPECT_EQ(seconds_of(ranks), (std::vector<std::int64_t>{0, 0}));
}

}  // namespace
}  // namespace tutti::record
