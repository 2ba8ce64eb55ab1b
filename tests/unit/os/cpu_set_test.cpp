#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "os/cpu_set.hpp"

namespace tutti::os {
namespace {

TEST(CpuSet, CountsTheUnion) {
  CpuSet all = CpuSet::of({0, 3});
  all.add(CpuSet::of({3, 2000}));
  EXPECT_EQ(all.count(), 3U);
  EXPECT_TRUE(all.has(2000));
  EXPECT_FALSE(all.has(1));
  EXPECT_FALSE(all.has(1'000'000));
  EXPECT_EQ(all, CpuSet::of({0, 3, 2000}));
}

TEST(CpuSet, LeavesOutWhatIsBeyondItsEnd) {
  EXPECT_TRUE(CpuSet::of({CpuSet::kMostCpus}).empty());
  EXPECT_EQ(CpuSet::of({CpuSet::kMostCpus - 1}).count(), 1U);
}

TEST(CpuSet, TravelsAsText) {
  EXPECT_EQ(CpuSet().to_text(), "");
  EXPECT_EQ(CpuSet::of({0, 1}).to_text(), "3");
  EXPECT_EQ(CpuSet::of({4, 64}).to_text(), "10000000000000010");
  for (const CpuSet& set :
       {CpuSet(), CpuSet::of({0, 63, 64, 1025}), CpuSet::of({CpuSet::kMostCpus - 1})})
    EXPECT_EQ(CpuSet::parse(set.to_text()), set);
}

TEST(CpuSet, RefusesOtherTexts) {
  for (const char* const text : {"x", "3 ", "F"}) EXPECT_FALSE(CpuSet::parse(text)) << text;
  EXPECT_FALSE(CpuSet::parse(std::string(CpuSet::kMostCpus / 4 + 1, '0')));
  EXPECT_TRUE(CpuSet::parse(std::string(CpuSet::kMostCpus / 4, 'f')));
}

TEST(Affinity, ThreadTakesThatOfTheProcess) {
  const CpuSet process = affinity_of(getpid());
  ASSERT_FALSE(process.empty());
  std::size_t first = 0;
  while (!process.has(first)) ++first;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(affinity_of(0), CpuSet::of({first}));
    EXPECT_TRUE(take_affinity_of_process());
    EXPECT_EQ(affinity_of(0), process);
  }).join();
}

}  // namespace
}  // namespace tutti::os
