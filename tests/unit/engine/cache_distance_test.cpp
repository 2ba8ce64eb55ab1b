// If the clock says that reading a peer's staging takes long, ranks stage with non-temporal stores.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

#include "engine/engine.hpp"
#include "verify/sim/memory.hpp"

namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using transport::shm::CacheDistance;

int looks = 0;  // at the clock

bool quick = false;  // what is looked at takes no time

TimePoint slow_clock() noexcept {
  ++looks;
  return TimePoint{std::chrono::hours(1) + milliseconds(quick ? 0 : looks)};
}

class CacheDistanceTest : public testing::Test {
 protected:
  void make(int size, int cpus = 8) {
    const auto ranks = static_cast<std::size_t>(size);
    memory_ = std::make_unique<verify::sim::Memory>(std::vector<int>(ranks, 0));
    GroupSpec spec;
    spec.id = 5;
    spec.name = "far";
    for (int r = 0; r < size; ++r) spec.ranks.push_back(r);
    for (int r = 0; r < size; ++r) {
      World world;
      world.rank = r;
      world.size = size;
      world.cpus = cpus;
      world.regions = &memory_->regions(r);
      world.host_of.assign(ranks, 0);
      world.local_of = memory_->local_of(r);
      world.route.assign(ranks, nullptr);
      world.whereabouts.assign(ranks, "");
      world.now = slow_clock;
      world.populate = [](std::byte*, std::size_t) { return Status(); };
      engines_.push_back(std::make_unique<Engine>(std::move(world)));
    }
    for (auto& engine : engines_) {
      Result<Group*> made = engine->add_group(spec);
      ASSERT_TRUE(made.ok());
      groups_.push_back(*made);
    }
  }

  static float input(std::size_t rank, int round, std::size_t i) {
    return static_cast<float>(i % 1021 + rank * 7 + static_cast<std::size_t>(round));
  }

  /// One all_reduce on all ranks, every element compared. In place, or from inputs that must stay.
  void all_reduce(std::size_t count, int round, bool in_place) {
    const std::size_t size = engines_.size();
    std::vector<std::vector<float>> in(size);
    std::vector<std::vector<float>> out(size);
    std::vector<std::uint64_t> tickets(size);
    std::vector<float> expected(count, 0);
    for (std::size_t r = 0; r < size; ++r) {
      in[r].resize(count);
      for (std::size_t i = 0; i < count; ++i) expected[i] += in[r][i] = input(r, round, i);
      out[r].assign(in_place ? 0 : count, -1);
    }
    const std::vector<std::vector<float>> before = in;
    for (std::size_t r = 0; r < size; ++r) {
      Collective call;
      call.kind = Kind::all_reduce;
      call.timeout = std::chrono::hours(10);
      call.input = view_of(in[r]);
      call.output = in_place ? call.input : view_of(out[r]);
      tickets[r] = engines_[r]->submit(*groups_[r], call);
    }
    for (int pass = 0; pass < 10000; ++pass) {
      bool moved = false;
      for (auto& engine : engines_) moved |= engine->progress();
      if (!moved) break;
    }
    for (std::size_t r = 0; r < size; ++r) {
      const auto outcome = engines_[r]->outcome(*groups_[r], tickets[r]);
      ASSERT_TRUE(outcome && outcome->ok()) << "rank " << r << ", round " << round;
      const std::vector<float>& result = in_place ? in[r] : out[r];
      ASSERT_EQ(first_difference(result, expected), count) << "rank " << r << ", round " << round;
      if (!in_place) {
        ASSERT_EQ(first_difference(in[r], before[r]), count) << "an input was changed";
      }
    }
  }

  /// Index of the first element that differs; the number of elements if none does.
  static std::size_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0)
      return a.size();
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                    a.begin());
  }

  /// Rounds of `count`; says how many of them looked at no clock.
  int untimed_of(int rounds, std::size_t count) {
    int untimed = 0;
    for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
      const int before = looks;
      all_reduce(count, round, round % 2 == 0);
      if (looks == before) ++untimed;
    }
    return untimed;
  }

  void TearDown() override { quick = false; }

  std::unique_ptr<verify::sim::Memory> memory_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Group*> groups_;
};

TEST_F(CacheDistanceTest, LargeOnesStagePastTheCacheAndAreRight) {
  make(2);
  // 32 KiB one-shot; slices of one chunk, of several, with rest: all but the first six and a probe.
  for (const std::size_t count : {8000, 65536, 100003}) EXPECT_GE(untimed_of(36, count), 28);
}

TEST_F(CacheDistanceTest, SmallOnesLearnItFromSamples) {
  make(2);
  EXPECT_GE(untimed_of(200, 1500), 187);  // 6 KB
  for (const auto& engine : engines_) EXPECT_TRUE(engine->staging_policy().remote());
}

TEST_F(CacheDistanceTest, TheSmallestTeachNothing) {
  make(2);
  EXPECT_EQ(untimed_of(100, 1000), 100);  // less than a page
  for (const auto& engine : engines_) EXPECT_FALSE(engine->staging_policy().remote());
}

constexpr std::chrono::nanoseconds kFast{60};
constexpr std::chrono::nanoseconds kSlow{280};

TEST(CacheDistance, ManySlowSamplesAmongTheLastMakeThemFar) {
  CacheDistance cores(false);
  std::atomic<std::uint32_t> told = 0;
  for (int i = 0; i < 40; ++i) cores.add(i % 8 < 4 ? kSlow : kFast, told);  // a busy memory
  EXPECT_FALSE(cores.remote());
  for (int i = 0; i < 8; ++i) cores.add(i % 4 == 0 ? kFast : kSlow, told);
  EXPECT_TRUE(cores.remote());
  EXPECT_EQ(told.load(), 1U);
  for (int i = 0; i < 2; ++i) cores.add(kFast, told);
  EXPECT_TRUE(cores.remote());
  for (int i = 0; i < 3; ++i) cores.add(kFast, told);
  EXPECT_FALSE(cores.remote());
  EXPECT_EQ(told.load(), 0U);
}

TEST(CacheDistance, HalfAsManyDoWherePeersMayShareOurCore) {
  CacheDistance cores(true);
  std::atomic<std::uint32_t> told = 0;
  for (int i = 0; i < 20; ++i) cores.add(i % 8 < 2 ? kSlow : kFast, told);  // interruptions
  EXPECT_FALSE(cores.remote());
  for (int i = 0; i < 8; ++i) cores.add(i % 2 == 0 ? kSlow : kFast, told);
  EXPECT_TRUE(cores.remote());
  EXPECT_EQ(told.load(), 1U);
  for (int i = 0; i < 4; ++i) cores.add(kFast, told);
  EXPECT_TRUE(cores.remote());
  for (int i = 0; i < 3; ++i) cores.add(kFast, told);
  EXPECT_FALSE(cores.remote());
}

TEST(CacheDistance, TheLineThatIsReadLiesInWhatIsStaged) {
  // At any place: also where half a page before or behind would be another page.
  std::vector<std::byte> staged(3 * 4096);
  for (const std::size_t bytes :
       {CacheDistance::kLeastBytes, CacheDistance::kLeastBytes + 1, std::size_t{8000}}) {
    for (std::size_t at = 0; at + bytes <= staged.size(); at += 64)
      EXPECT_GE(CacheDistance::read_one_line(staged.data() + at, bytes, slow_clock),
                milliseconds(1));
  }
}

TEST_F(CacheDistanceTest, MoreThanTwoRanks) {
  make(3);
  for (const std::size_t count : {50000, 100003}) EXPECT_GE(untimed_of(36, count), 28);
}

TEST_F(CacheDistanceTest, MoreRanksThanCoresLookAtLines) {
  make(2, 1);
  // Only who comes late finds the line at its first look: the second, who tells the first.
  EXPECT_GE(untimed_of(300, 1500), 270);
  EXPECT_FALSE(engines_[0]->staging_policy().remote());
  EXPECT_TRUE(engines_[1]->staging_policy().remote());
  EXPECT_EQ(memory_->regions(0).peers[1].header().remote_cache.load(), 1U);
}

TEST_F(CacheDistanceTest, MoreRanksThanCoresLearnFromEveryLargeOne) {
  make(3, 2);
  untimed_of(4, 65536);
  EXPECT_TRUE(engines_[2]->staging_policy().remote());
  // Arrival lines are samples in both modes, so no operation has to stage the slow way for that.
  EXPECT_EQ(untimed_of(20, 65536), 0);
  quick = true;
  EXPECT_EQ(untimed_of(7, 65536), 0);
  EXPECT_FALSE(engines_[2]->staging_policy().remote());
  EXPECT_EQ(memory_->regions(0).peers[2].header().remote_cache.load(), 0U);
}

TEST_F(CacheDistanceTest, OutputsPastTheCacheToo) {
  make(2);
  EXPECT_GE(untimed_of(10, (std::size_t{4} << 20) + 3), 3);  // 16 MiB
}

}  // namespace
}  // namespace tutti::engine
