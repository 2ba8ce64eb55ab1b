#include "engine/region_channel.hpp"

#include "bare_groups.hpp"

// The channel alone, on each rank of a host: no engine, no schedule, no messages.
namespace tutti::engine {
namespace {

using Lines = RegionChannel::Lines;

int clock_reads = 0;

TimePoint ticking_clock() noexcept {
  return TimePoint{std::chrono::hours(1) + std::chrono::microseconds(++clock_reads)};
}

class RegionChannelTest : public BareGroupsTest {
 protected:
  static constexpr int kRanks = 3;
  struct Rank {
    Rank(verify::sim::Memory& memory, int rank)
        : groups(memory, rank, kRanks),
          group(groups.make(5)),
          channel(memory.regions(rank), options()) {}
    static RegionChannel::Options options() {
      return {8, false, ticking_clock, [](std::byte*, std::size_t) { return Outcome(); }};
    }
    BareGroups groups;
    Group& group;
    RegionChannel channel;
  };

  RegionChannelTest() : memory_(std::vector<int>(kRanks, 0)) {
    for (int rank = 0; rank < kRanks; ++rank)
      ranks_.push_back(std::make_unique<Rank>(memory_, rank));
  }
  RegionChannel& channel(int rank) { return base::at(ranks_, rank)->channel; }
  Group& group(int rank) { return base::at(ranks_, rank)->group; }

  static RegionState state(std::uint64_t seq, std::uint64_t fingerprint, std::size_t stage_bytes) {
    RegionState one;
    one.seq = seq;
    one.fingerprint = fingerprint;
    one.stage_bytes = stage_bytes;
    one.in_line = stage_bytes == 0;
    one.stage_of.resize(2 * kRanks);
    return one;
  }
  /// The rank stages a byte and publishes.
  void publish(int rank, RegionState& one, int byte) {
    if (one.in_line) {
      channel(rank).use_line_as_stage(group(rank), one);
    } else {
      ASSERT_TRUE(channel(rank).take_stage(group(rank), one, one.stage_bytes).ok());
    }
    *one.stage = static_cast<std::byte>(byte);
    channel(rank).publish(group(rank), one);
  }

  /// The lines of all, as rank 0 sees them.
  Lines lines_of(RegionState& ours) { return channel(0).lines(group(0), ours, plan_, all_, at_); }

  verify::sim::Memory memory_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  BoundPlan plan_;
  const RankRow all_{kRanks};
  std::int32_t at_ = 0;  ///< where looking has ended
  RegionState ours_ = state(1, 9, 0);
  RegionState theirs_ = state(1, 9, 0);
};

TEST_F(RegionChannelTest, ALineBringsItsRanksStaging) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4096}}) {
    const std::uint64_t seq = bytes + 1;
    RegionState ours = state(seq, 9, bytes);
    RegionState first = state(seq, 9, bytes);
    RegionState second = state(seq, 9, bytes);
    at_ = 0;
    publish(0, ours, 10);
    EXPECT_EQ(lines_of(ours), Lines::missing);
    EXPECT_EQ(at_, 1);
    publish(2, second, 12);
    EXPECT_FALSE(RegionChannel::has_arrived(group(0), group(0).member(1), ours));
    EXPECT_TRUE(RegionChannel::has_arrived(group(0), group(0).member(2), ours));
    EXPECT_EQ(lines_of(ours), Lines::missing);
    publish(1, first, 11);
    EXPECT_EQ(lines_of(ours), Lines::here);
    EXPECT_EQ(at_, 0);
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(base::at(ours.stage_of, rank)[0], static_cast<std::byte>(10 + rank));
  }
}

TEST_F(RegionChannelTest, ALineOfAnotherCallNamesItsRank) {
  RegionState other = state(1, 8, 0);
  publish(1, theirs_, 1);
  publish(2, other, 2);
  EXPECT_EQ(lines_of(ours_), Lines::differs);
  EXPECT_EQ(all_[at_], 2);
}

TEST_F(RegionChannelTest, StagingOutsideItsArenaIsNotRead) {
  RegionState ours = state(1, 9, 4096);
  RegionState liar = state(1, 9, 4096);
  liar.stage_offset = memory_.regions(0).peers[1].arena_bytes - 100;
  channel(1).publish(group(1), liar);
  EXPECT_EQ(lines_of(ours), Lines::outside);
  EXPECT_EQ(all_[at_], 1);
}

TEST_F(RegionChannelTest, AnInputThatItsRankMayNotShowIsNotRead) {
  plan_.kind = Kind::broadcast;
  plan_.binding.count = 4096;
  for (const bool allowed : {false, true}) {
    plan_.stages_inputs = allowed;
    for (const std::uint64_t offset :
         {allowed ? transport::shm::kHeapOffset : transport::shm::kUserOffset,
          transport::shm::kArenaBytes - 4095, ~std::uint64_t{0} >> 1, std::uint64_t{0}}) {
      RegionState ours = state(1, 9, 4096);
      RegionState liar = state(1, 9, 4096);
      liar.lends = true;
      liar.stage_offset = offset;
      channel(1).publish(group(1), liar);
      at_ = 0;
      EXPECT_EQ(lines_of(ours), Lines::outside) << offset;
    }
  }
}

TEST_F(RegionChannelTest, CountersAreOfTheirOperationOnly) {
  const RankRow others({1, 2, 1}, kRanks, {0, 0});
  EXPECT_TRUE(channel(0).counters(group(0), ours_, 1, 0, others, at_));  // nothing to wait for
  channel(1).signal(group(1), theirs_, 1, 2);
  EXPECT_FALSE(RegionChannel::has_signalled(group(0), group(0).member(1), ours_, 0, 1));
  EXPECT_TRUE(RegionChannel::has_signalled(group(0), group(0).member(1), ours_, 1, 2));
  EXPECT_FALSE(RegionChannel::has_signalled(group(0), group(0).member(1), ours_, 1, 3));
  EXPECT_FALSE(channel(0).counters(group(0), ours_, 1, 2, others, at_));
  channel(2).signal(group(2), theirs_, 1, 5);
  EXPECT_TRUE(channel(0).counters(group(0), ours_, 1, 2, others, at_));
  // The same slot of the window serves a later operation.
  RegionState later = state(1 + transport::shm::kWindow, 9, 0);
  EXPECT_FALSE(channel(0).counters(group(0), later, 1, 1, others, at_));
}

TEST_F(RegionChannelTest, FindsARankThatHasSignalled) {
  EXPECT_EQ(RegionChannel::find_signalled(group(0), ours_, 1, 1, all_), -1);
  publish(1, theirs_, 1);
  publish(2, theirs_, 2);
  ASSERT_EQ(lines_of(ours_), Lines::here);
  channel(2).signal(group(2), theirs_, 1, 1);
  EXPECT_EQ(RegionChannel::find_signalled(group(0), ours_, 1, 1, all_), 2);
}

TEST_F(RegionChannelTest, ReadsTheClockOnlyWhereASampleIsDue) {
  RegionState ours = state(1, 9, StagingPolicy::kLargeBytes);
  const std::vector<std::byte> staged(StagingPolicy::kLargeBytes);
  const int turn = StagingPolicy::sampled_rank(1, 0, kRanks);
  clock_reads = 0;
  channel(0).sample_stage(group(0), ours, turn, staged.data(), staged.size());
  EXPECT_EQ(clock_reads, 0);  // it does not look at staging
  ours.mode.sample = Sample::staged;
  channel(0).sample_stage(group(0), ours, (turn + 1) % kRanks, staged.data(), staged.size());
  EXPECT_EQ(clock_reads, 0);  // another rank's turn
  channel(0).sample_stage(group(0), ours, turn, staged.data(), staged.size());
  EXPECT_EQ(clock_reads, 3);  // the first brings its memory
  channel(0).sample_stage(group(0), ours, turn, staged.data(), staged.size());
  EXPECT_EQ(clock_reads, 3);  // once per operation
}

// --- The policy.

class StagingPolicyTest : public testing::Test {
 protected:
  using CacheDistance = StagingPolicy::CacheDistance;
  StagingPolicyTest() : memory_({0, 0}), policy_(memory_.regions(0), 2) {}
  StagingMode choose_large(std::uint64_t seq = 1) {
    return policy_.choose(StagingPolicy::kLargeBytes, seq);
  }
  static void learn(StagingPolicy& policy, int nanoseconds) {
    for (int i = 0; i < 8; ++i) policy.learn(std::chrono::nanoseconds(nanoseconds));
  }
  verify::sim::Memory memory_;
  StagingPolicy policy_;
};

TEST_F(StagingPolicyTest, FewBytesAreStagedInTheCacheAndNotLookedAt) {
  learn(policy_, 500);
  const StagingMode mode = policy_.choose(StagingPolicy::kLeastBytes - 1, 1);
  EXPECT_FALSE(mode.past_cache);
  EXPECT_EQ(mode.sample, Sample::none);
}

TEST_F(StagingPolicyTest, GoesPastTheCacheWhileOthersMemoryIsFarAndProbesNowAndThen) {
  EXPECT_FALSE(choose_large().past_cache);
  EXPECT_EQ(choose_large().sample, Sample::staged);
  learn(policy_, 500);
  EXPECT_TRUE(policy_.remote());
  EXPECT_TRUE(choose_large().past_cache);
  EXPECT_EQ(choose_large().sample, Sample::none);
  EXPECT_FALSE(choose_large(CacheDistance::kProbeEvery).past_cache);
  learn(policy_, 10);
  EXPECT_FALSE(choose_large().past_cache);
}

TEST_F(StagingPolicyTest, AnotherRankOfTheHostMayHaveLearnedIt) {
  StagingPolicy other(memory_.regions(1), 2);
  learn(other, 500);
  EXPECT_FALSE(policy_.remote());
  EXPECT_TRUE(choose_large().past_cache);
}

TEST_F(StagingPolicyTest, WithMoreRanksThanCpusItLooksAtLines) {
  StagingPolicy crowded(memory_.regions(0), 1);
  EXPECT_EQ(crowded.choose(StagingPolicy::kLargeBytes, 1).sample, Sample::line);
}

TEST_F(StagingPolicyTest, EachOtherRankHasItsTurn) {
  constexpr int kSize = 5;
  std::vector<int> turns(kSize);
  for (std::uint64_t seq = 1; seq <= 400; ++seq) {
    const int rank = StagingPolicy::sampled_rank(seq, 2, kSize);
    ASSERT_TRUE(rank >= 0 && rank < kSize);
    ++base::at(turns, rank);
  }
  for (int rank = 0; rank < kSize; ++rank) EXPECT_EQ(base::at(turns, rank) > 0, rank != 2);
}

}  // namespace
}  // namespace tutti::engine
