#include "backend/native/cpu_contention.hpp"

#include <gtest/gtest.h>

#include <map>

#include "backend/native/host_cpus.hpp"

namespace tutti::native {
namespace {

using namespace std::chrono_literals;
using engine::TimePoint;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// What the processes of this machine have done so far.
std::map<int, nanoseconds> used_by;
std::int64_t sleeps = 0;

std::optional<nanoseconds> cpu_time(int pid) noexcept {
  const auto found = used_by.find(pid);
  return found == used_by.end() ? std::nullopt : std::optional(found->second);
}
std::int64_t count_sleeps() noexcept { return sleeps; }

/// Ranks 1 to 4 on two CPUs.
class CpuContentionTest : public testing::Test {
 protected:
  CpuContentionTest() {
    used_by = {{1, {}}, {2, {}}, {3, {}}, {4, {}}};
    sleeps = 0;
  }
  /// Time goes by, and each rank gets that much of it; then a long yield ends.
  bool after(milliseconds time, milliseconds each_rank, CpuContention& contention) {
    now_ += time;
    for (auto& [pid, used] : used_by) used += each_rank;
    return contention.after_long_yield(now_);
  }
  bool after(milliseconds time, milliseconds each_rank) { return after(time, each_rank, crowd_); }
  int waits_that_sleep() {
    int waits = 0;
    for (; crowd_.oversubscribed(); ++waits) crowd_.wait_ended();
    return waits;
  }

  TimePoint now_{1000ms};
  CpuContention crowd_{2, {1, 2, 3, 4}, cpu_time, count_sleeps};
};

TEST_F(CpuContentionTest, RanksThatWaitForEachOtherAreNone) {
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(after(4ms, 2ms));
  EXPECT_FALSE(crowd_.oversubscribed());
}

TEST_F(CpuContentionTest, OtherProcessesAre) {
  bool oversubscribed = false;
  int yields = 0;
  for (; yields < 100 && !oversubscribed; ++yields) oversubscribed = after(4ms, 1ms);
  EXPECT_TRUE(oversubscribed);
  EXPECT_LT(yields, 30) << "about 0.1 s";
  EXPECT_TRUE(crowd_.oversubscribed());
}

TEST_F(CpuContentionTest, SleepsForMoreWaitsEachTimeAndForFewAgainWhenTheOthersAreGone) {
  const auto learn = [&] { return after(200ms, 1ms) || after(200ms, 1ms); };
  ASSERT_TRUE(learn());
  const int first = waits_that_sleep();
  EXPECT_GT(first, 1);
  ASSERT_TRUE(learn());
  EXPECT_EQ(waits_that_sleep(), 2 * first);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(learn());
    EXPECT_LE(waits_that_sleep(), 1024);
  }
  (void)after(200ms, 100ms);
  EXPECT_FALSE(after(200ms, 100ms));
  ASSERT_TRUE(learn());
  EXPECT_EQ(waits_that_sleep(), first);
}

TEST_F(CpuContentionTest, ShortTimesSayNothing) {
  // The kernel's figures are up to a tick old.
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(after(4ms, 0ms));
}

TEST_F(CpuContentionTest, ARankThatHasSleptDoesNotTakeItsOwnRestForContention) {
  EXPECT_FALSE(after(200ms, 1ms));
  ++sleeps;
  EXPECT_FALSE(after(200ms, 1ms));
  EXPECT_TRUE(after(200ms, 1ms));
}

TEST_F(CpuContentionTest, TimesLongAgoSayNothing) {
  EXPECT_FALSE(after(200ms, 1ms));
  EXPECT_FALSE(after(20'000ms, 1ms));
}

TEST_F(CpuContentionTest, ProcessesThatAreNotToBeSeenSayNothing) {
  CpuContention unknown(2, {}, cpu_time, count_sleeps);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(after(200ms, 1ms, unknown));
  used_by.erase(3);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(after(200ms, 1ms));
}

TEST_F(CpuContentionTest, FewRanksCannotFillManyCpus) {
  CpuContention roomy(16, {1, 2, 3, 4}, cpu_time, count_sleeps);
  (void)after(200ms, 200ms, roomy);
  EXPECT_FALSE(after(200ms, 200ms, roomy));
}

TEST_F(CpuContentionTest, RanksThatAreThreadsAreCountedOnce) {
  CpuContention threads(2, {1, 1, 1}, cpu_time, count_sleeps);
  (void)after(200ms, 400ms, threads);
  EXPECT_FALSE(after(200ms, 400ms, threads));
  EXPECT_TRUE(after(200ms, 200ms, threads));
}

using transport::shm::HostAddress;

HostAddress rank_on(os::CpuSet cpus, const char* boot = "here") {
  HostAddress address;
  address.boot = boot;
  address.cpus = std::move(cpus);
  return address;
}

int cpus_of(const std::vector<HostAddress>& ranks) {
  std::vector<const HostAddress*> all;
  for (const HostAddress& rank : ranks) all.push_back(&rank);
  return cpus_of_host(all);
}

HostAddress limited(HostAddress address, int cpus, std::uint64_t group) {
  address.quota = os::CpuQuota{cpus, group};
  return address;
}

TEST(HostCpus, AreTheUnionOfTheRanks) {
  EXPECT_EQ(cpus_of({rank_on({})}), 1);
  EXPECT_EQ(cpus_of({rank_on(os::CpuSet::of({0})), rank_on(os::CpuSet::of({1}))}), 2);
  EXPECT_EQ(cpus_of({rank_on(os::CpuSet::of({1})), rank_on(os::CpuSet::of({1}))}), 1);
  EXPECT_EQ(cpus_of({rank_on(os::CpuSet::of({0, 1})), rank_on(os::CpuSet::of({1, 1030}))}), 3);
}

TEST(HostCpus, AreCappedByTheQuotaOfACgroup) {
  const HostAddress rank = rank_on(os::CpuSet::of({0, 1, 2, 3}));
  EXPECT_EQ(cpus_of({limited(rank, 2, 7), limited(rank, 2, 7)}), 2);
  EXPECT_EQ(cpus_of({limited(rank, 9, 7), limited(rank, 9, 7)}), 4);
}

TEST(HostCpus, QuotasOfSeveralCgroupsAddUp) {
  const HostAddress rank = rank_on(os::CpuSet::of({0, 1, 2, 3}));
  EXPECT_EQ(cpus_of({limited(rank, 1, 7), limited(rank, 1, 8), limited(rank, 1, 8)}), 2);
  EXPECT_EQ(cpus_of({limited(rank, 1, 7), rank}), 4) << "one rank has no quota";
}

TEST(HostCpus, LeastThatIsGivenCountsBeforeAll) {
  HostAddress one = rank_on(os::CpuSet::of({0}));
  HostAddress other = one;
  one.given_cpus = 6;
  EXPECT_EQ(cpus_of({one, other}), 6);
  other.given_cpus = 5;
  EXPECT_EQ(cpus_of({one, other}), 5);
}

TEST(HostCpus, LeastOfAllHostsIsToldByBootIds) {
  const os::CpuSet first = os::CpuSet::of({0});
  const os::CpuSet second = os::CpuSet::of({1});
  EXPECT_EQ(least_cpus({rank_on(first), rank_on(second)}), 2);
  EXPECT_EQ(least_cpus({rank_on(first), rank_on(second), rank_on(first, "there")}), 1);
}

}  // namespace
}  // namespace tutti::native
