#include "engine/staging.hpp"

#include <gtest/gtest.h>

#include "engine/group.hpp"
#include "engine/scratch.hpp"

namespace tutti::engine {
namespace {

namespace shm = transport::shm;

constexpr std::size_t kRing = shm::kStagingBytes;

/// Passed by all: what `done_upto` says.
bool passed(Group& group, std::uint64_t seq) { return group.window.done_upto() >= seq; }

std::vector<std::pair<std::size_t, std::size_t>>& populated() {
  static std::vector<std::pair<std::size_t, std::size_t>> ranges;
  return ranges;
}

std::byte* const kArena = nullptr;  // never touched: only offsets are handed out

Outcome remember(std::byte* data, std::size_t size) {
  populated().emplace_back(static_cast<std::size_t>(data - kArena), size);
  return {};
}

Outcome refuse(std::byte*, std::size_t) { return Outcome(Errc::resource, "no memory"); }

class StagingTest : public testing::Test {
 protected:
  void SetUp() override { populated().clear(); }
  std::size_t take(Group& group, std::uint64_t seq, std::size_t bytes) {
    Result<std::size_t> taken = staging_.take(group, seq, bytes);
    EXPECT_TRUE(taken.ok());
    return taken.ok() ? *taken : 0;
  }
  static bool in_ring(std::size_t offset) {
    return offset >= shm::kStagingOffset && offset < shm::kStagingOffset + kRing;
  }

  Staging staging_{kArena, passed, remember};
  Group group_;
  Group late_;
};

TEST_F(StagingTest, CyclesThroughTheRing) {
  const std::size_t piece = kRing / 4;
  std::vector<std::size_t> offsets;
  for (std::uint64_t seq = 1; seq <= 8; ++seq) {
    offsets.push_back(take(group_, seq, piece));
    group_.window.skip_to(seq);
  }
  for (std::size_t at = 0; at < 4; ++at) {
    EXPECT_EQ(offsets[at], shm::kStagingOffset + at * piece);
    EXPECT_EQ(offsets[at + 4], offsets[at]);  // and round again
  }
}

TEST_F(StagingTest, CyclesThroughLessWhileItsStartIsFree) {
  const std::size_t piece = kRing / 8;
  staging_ = Staging(kArena, passed, remember, 2 * piece);
  const auto place = [&](std::size_t nth) { return shm::kStagingOffset + nth * piece; };
  EXPECT_EQ(take(group_, 1, piece), place(0));
  EXPECT_EQ(take(group_, 2, piece), place(1));
  EXPECT_EQ(take(group_, 3, piece), place(2));  // the first is still in use
  group_.window.skip_to(1);
  EXPECT_EQ(take(group_, 4, piece), place(0));
  EXPECT_EQ(take(group_, 5, piece), shm::kHeapOffset);  // behind it lies the second, in use
  group_.window.skip_to(4);
  EXPECT_EQ(take(group_, 6, piece), place(1));
  EXPECT_EQ(take(group_, 7, 2 * piece), place(2));  // two pieces do not fit below: 6 is in use
  group_.window.skip_to(7);
  EXPECT_EQ(take(group_, 8, 3 * piece), place(0));  // more than the cycle, from its start
  group_.window.skip_to(8);
  EXPECT_EQ(take(group_, 9, piece), place(0));
}

TEST_F(StagingTest, WhatIsInUseIsNotHandedOutAgain) {
  const std::size_t piece = kRing / 4;
  const std::size_t first = take(group_, 1, piece);
  for (std::uint64_t seq = 2; seq <= 4; ++seq) take(group_, seq, piece);
  const std::size_t beside = take(group_, 5, piece);
  EXPECT_FALSE(in_ring(beside));
  group_.window.skip_to(1);
  EXPECT_EQ(take(group_, 6, piece), first);
}

TEST_F(StagingTest, SmallPiecesStartAtLines) {
  EXPECT_EQ(take(group_, 1, 1), shm::kStagingOffset);
  EXPECT_EQ(take(group_, 2, 65), shm::kStagingOffset + 64);
  EXPECT_EQ(take(group_, 3, 64), shm::kStagingOffset + 64 + 128);
}

TEST_F(StagingTest, WhatDoesNotFitAtTheEndGoesToTheStart) {
  take(group_, 1, kRing / 2);
  take(group_, 2, kRing / 4);
  group_.window.skip_to(2);
  EXPECT_EQ(take(group_, 3, kRing / 2), shm::kStagingOffset);
}

TEST_F(StagingTest, ASkippedEndIsNotOverwritten) {
  take(group_, 1, kRing / 2);
  take(late_, 1, kRing / 4);  // its peers are late
  group_.window.skip_to(1);
  const std::size_t third = take(group_, 2, kRing / 2);
  EXPECT_EQ(third, shm::kStagingOffset);
  group_.window.skip_to(2);
  const std::size_t fourth = take(group_, 3, kRing / 2);
  EXPECT_FALSE(in_ring(fourth)) << "the late group's piece lies in the way";
}

TEST_F(StagingTest, GoingRoundDoesNotPassOverALatePieceAtTheEnd) {
  take(group_, 1, kRing / 8 * 7);
  take(late_, 1, kRing / 8);  // at the end of the ring; its peers are late
  group_.window.skip_to(1);
  EXPECT_EQ(take(group_, 2, kRing / 4), shm::kStagingOffset);
  const std::size_t third = take(group_, 3, kRing / 8 * 7);
  EXPECT_FALSE(in_ring(third)) << "it would lie over the second, which is in use";
}

TEST_F(StagingTest, ALateGroupDoesNotBlockAnother) {
  take(late_, 1, kRing);
  const std::size_t beside = take(group_, 1, 4096);
  EXPECT_FALSE(in_ring(beside));
  group_.window.skip_to(1);
  EXPECT_EQ(take(group_, 2, 4096), beside) << "memory beside the ring is used again";
}

TEST_F(StagingTest, MoreThanTheRingGoesBesideIt) {
  const std::size_t large = take(group_, 1, 3 * kRing);
  EXPECT_GE(large, shm::kHeapOffset);
  const std::size_t second = take(group_, 2, 3 * kRing);
  EXPECT_GE(second, large + 3 * kRing);
}

TEST_F(StagingTest, AForgottenGroupHoldsNothing) {
  const std::size_t first = take(late_, 1, kRing);
  const std::size_t beside = take(late_, 2, kRing);
  staging_.forget(late_);
  EXPECT_EQ(take(group_, 1, kRing), first);
  EXPECT_EQ(take(group_, 2, kRing), beside);
}

TEST_F(StagingTest, EveryPageIsTakenOnceBeforeItIsUsed) {
  for (std::uint64_t seq = 1; seq <= 40; ++seq) {
    take(group_, seq, kRing / 8);
    group_.window.skip_to(seq);
  }
  std::size_t end = shm::kStagingOffset;
  for (const auto& [offset, size] : populated()) {
    EXPECT_EQ(offset, end);
    end += size;
  }
  EXPECT_EQ(end, shm::kStagingOffset + kRing);
}

TEST(Staging, LackOfMemoryIsAnError) {
  Staging staging(kArena, passed, refuse);
  Group group;
  EXPECT_EQ(staging.take(group, 1, 100).status().code(), Errc::resource);
  EXPECT_EQ(staging.take(group, 1, 2 * kRing).status().code(), Errc::resource);
}

constexpr std::size_t kLarge = 4 * ScratchPool::kSmall;

TEST(ScratchPool, WhatIsGivenIsTakenAgain) {
  ScratchPool pool;
  Scratch one;
  pool.fit(one, kLarge);
  ASSERT_GE(one.size(), kLarge);
  const std::byte* const memory = one.data();
  pool.release(std::move(one));
  EXPECT_EQ(pool.kept(), kLarge);
  Scratch other;
  pool.fit(other, kLarge - 1);
  EXPECT_EQ(other.data(), memory);
  EXPECT_EQ(pool.kept(), 0U);
}

TEST(ScratchPool, WhatIsTooSmallIsNotTaken) {
  ScratchPool pool;
  pool.release(Scratch(kLarge));
  Scratch larger;
  pool.fit(larger, kLarge + 1);
  EXPECT_GE(larger.size(), kLarge + 1);
  EXPECT_EQ(pool.kept(), kLarge);
}

TEST(ScratchPool, WhatWasThereIsGivenForALargerOne) {
  ScratchPool pool;
  Scratch one(kLarge);
  pool.fit(one, 2 * kLarge);
  EXPECT_GE(one.size(), 2 * kLarge);
  EXPECT_EQ(pool.kept(), kLarge);
}

TEST(ScratchPool, KeepsABoundedAmountAndOfThatTheNewest) {
  ScratchPool pool;
  pool.release(Scratch(ScratchPool::kMostKept + 1));  // a ring's, of the length of a tensor
  EXPECT_EQ(pool.kept(), 0U);
  pool.release(Scratch(ScratchPool::kSmall));  // its slot would have kept it
  EXPECT_EQ(pool.kept(), 0U);
  for (std::size_t i = 0; i < 100; ++i) {
    pool.release(Scratch(kLarge + i));
    EXPECT_LE(pool.kept(), ScratchPool::kMostKept);
  }
  Scratch newest;
  pool.fit(newest, kLarge);
  EXPECT_EQ(newest.size(), kLarge + 99);
  pool.release(std::move(newest));
  pool.release(Scratch(ScratchPool::kMostKept));
  EXPECT_EQ(pool.kept(), ScratchPool::kMostKept);
}

}  // namespace
}  // namespace tutti::engine
