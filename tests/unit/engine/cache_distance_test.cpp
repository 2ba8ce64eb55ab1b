// If the clock says that reading a peer's staging takes long, ranks stage with non-temporal stores.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "host.hpp"

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
    host_ = std::make_unique<Host>(size, [=](World& world) {
      world.cpus = cpus;
      world.now = slow_clock;
    });
    for (int rank = 0; rank < size; ++rank) host_->make(rank, kGroup);
  }
  [[nodiscard]] bool remote(int rank) { return host_->engine(rank).staging_policy().remote(); }
  /// What rank 0 sees of another's header.
  [[nodiscard]] std::uint32_t told_by(std::size_t rank) {
    return host_->regions(0).peers[rank].words().remote_cache.load();
  }

  /// `count` elements, the first some of which repeat: memory is copied faster than computed.
  static std::vector<float> repeated(std::vector<float> some, std::size_t count) {
    const std::size_t period = some.size();
    some.resize(std::max(count, period));
    for (std::size_t at = period; at < some.size(); at += period)
      std::copy_n(some.begin(), std::min(period, some.size() - at), some.data() + at);
    some.resize(count);
    return some;
  }

  /// One all_reduce on all ranks, every element compared. In place, or from inputs that must stay.
  void all_reduce(std::size_t count, int round, bool in_place) {
    const auto size = base::as_size(host_->size());
    std::vector<std::vector<float>> in;
    std::vector<std::vector<float>> out(size, std::vector<float>(in_place ? 0 : count, -1));
    std::vector<std::uint64_t> tickets;
    std::vector<float> sums(1021);
    for (std::size_t r = 0; r < size; ++r) {
      std::vector<float> some(sums.size());
      std::iota(some.begin(), some.end(), static_cast<float>(r * 7 + base::as_size(round)));
      std::ranges::transform(sums, some, sums.begin(), std::plus());
      in.push_back(repeated(std::move(some), count));
    }
    const std::vector<float> expected = repeated(std::move(sums), count);
    const std::vector<std::vector<float>> before = in;
    const auto result = [&](int rank) -> auto& { return base::at(in_place ? in : out, rank); };
    for (int rank = 0; rank < host_->size(); ++rank)
      tickets.push_back(host_->engine(rank).submit(host_->group(rank, kGroup),
                                                   {.kind = Kind::all_reduce,
                                                    .timeout = std::chrono::hours(10),
                                                    .input = TensorView(base::at(in, rank)),
                                                    .output = TensorView(result(rank))}));
    host_->settle();
    for (int rank = 0; rank < host_->size(); ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank) + ", round " + std::to_string(round));
      const auto outcome =
          host_->engine(rank).outcome(host_->group(rank, kGroup), base::at(tickets, rank));
      ASSERT_TRUE(outcome && outcome->ok());
      ASSERT_EQ(first_difference(result(rank), expected), count);
      if (in_place) continue;
      ASSERT_EQ(first_difference(base::at(in, rank), base::at(before, rank)), count)
          << "an input was changed";
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

  static constexpr std::uint64_t kGroup = 5;
  std::unique_ptr<Host> host_;
};

TEST_F(CacheDistanceTest, LargeOnesStagePastTheCacheAndAreRight) {
  // 32 KiB one-shot; slices of one chunk, of several, with rest: all but the first six and a probe.
  make(2);
  for (const std::size_t count : {8000, 65536, 100003}) EXPECT_GE(untimed_of(36, count), 28);
  make(3);
  for (const std::size_t count : {50000, 100003}) EXPECT_GE(untimed_of(36, count), 28);
}

TEST_F(CacheDistanceTest, SmallOnesLearnItFromSamples) {
  make(2);
  EXPECT_GE(untimed_of(200, 1500), 187);  // 6 KB
  for (const int rank : {0, 1}) EXPECT_TRUE(remote(rank));
}

TEST_F(CacheDistanceTest, TheSmallestTeachNothing) {
  make(2);
  EXPECT_EQ(untimed_of(100, 1000), 100);  // less than a page
  for (const int rank : {0, 1}) EXPECT_FALSE(remote(rank));
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

TEST_F(CacheDistanceTest, MoreRanksThanCoresLookAtLines) {
  make(2, 1);
  // Only who comes late finds the line at its first look: the second, who tells the first.
  EXPECT_GE(untimed_of(300, 1500), 270);
  EXPECT_FALSE(remote(0));
  EXPECT_TRUE(remote(1));
  EXPECT_EQ(told_by(1), 1U);
}

TEST_F(CacheDistanceTest, MoreRanksThanCoresLearnFromEveryLargeOne) {
  make(3, 2);
  untimed_of(4, 65536);
  EXPECT_TRUE(remote(2));
  // Arrival lines are samples in both modes, so no operation has to stage the slow way for that.
  EXPECT_EQ(untimed_of(20, 65536), 0);
  quick = true;
  EXPECT_EQ(untimed_of(7, 65536), 0);
  EXPECT_FALSE(remote(2));
  EXPECT_EQ(told_by(2), 0U);
}

TEST_F(CacheDistanceTest, OutputsPastTheCacheToo) {
  make(2);
  EXPECT_GE(untimed_of(10, (std::size_t{4} << 20) + 3), 3);  // 16 MiB
}

}  // namespace
}  // namespace tutti::engine
