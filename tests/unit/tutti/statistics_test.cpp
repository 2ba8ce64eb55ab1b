#include "apps/bench/statistics.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <vector>

#include "apps/bench/build_comparison.hpp"
#include "apps/bench/build_report.hpp"

namespace tutti::bench {
namespace {

/// Pairs whose three times vary by `noise` (a part of them), B slower by `extra`.
std::vector<Pair> noisy_pairs(std::mt19937& random, int count, double noise, double extra) {
  std::normal_distribution<double> spread(1, noise);
  std::vector<Pair> pairs;
  for (int i = 0; i < count; ++i) {
    // The machine itself runs at another speed in each pair.
    const double speed = 240e-9 * (i % 3 == 0 ? 1.5 : 1.0);
    pairs.push_back(
        {speed * spread(random), speed * spread(random) + extra, speed * spread(random)});
  }
  return pairs;
}

TEST(Statistics, MedianOfOddEvenAndNone) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_EQ(lower_quartile({5, 1, 4, 2, 3}), 2);
}

// 10 or more of 11 have the chance 23 / 3^11, 9 or more 243 / 3^11; twice that, for each cell.
TEST(Statistics, TheNeededPairsFollowTheBinomialDistribution) {
  EXPECT_EQ(needed_pairs(11, 11), 10);
  EXPECT_EQ(needed_pairs(11, 1), 9);
  EXPECT_EQ(needed_pairs(15, 50), 13);
  EXPECT_EQ(needed_pairs(4, 1), 5) << "four pairs prove nothing: 2 / 81 is more than 1 %";
  EXPECT_EQ(needed_pairs(5, 1), 5);
  EXPECT_EQ(fewest_pairs(1), 5);
  EXPECT_EQ(fewest_pairs(50), 9);
  EXPECT_LE(needed_pairs(fewest_pairs(1000), 1000), fewest_pairs(1000));
}

TEST(Statistics, FindsTwentyNanosecondsBeneathTheNoise) {
  std::mt19937 random(1);
  const Verdict slower = judge(noisy_pairs(random, 15, 0.01, 20e-9), needed_pairs(15, 20));
  EXPECT_EQ(slower.finding, Finding::slower);
  EXPECT_NEAR(slower.ratio, 1 + 20.0 / 240, 0.02);
  EXPECT_NEAR(slower.difference_s, 20e-9, 5e-9);
  const Verdict faster = judge(noisy_pairs(random, 15, 0.01, -20e-9), needed_pairs(15, 20));
  EXPECT_EQ(faster.finding, Finding::faster);
}

// 1000 runs of 20 cells each; the rule allows a finding in one run of a hundred.
TEST(Statistics, EqualBuildsAreHardlyEverFoundToDiffer) {
  std::mt19937 random(2);
  constexpr int kCells = 20;
  constexpr int kRuns = 1000;
  int alarms = 0;
  for (int run = 0; run < kRuns; ++run) {
    bool alarm = false;
    for (int cell = 0; cell < kCells; ++cell) {
      const Verdict verdict = judge(noisy_pairs(random, 11, 0.05, 0), needed_pairs(11, kCells));
      alarm = alarm || verdict.finding != Finding::none;
    }
    alarms += alarm ? 1 : 0;
  }
  EXPECT_LE(alarms, kRuns / 100);
}

// B is the slowest in every pair, but two starts of the same build differ by more.
TEST(Statistics, ADifferenceWithinTheNoiseIsNoFinding) {
  std::vector<Pair> pairs(8, {1.10, 1.122, 1.0});
  pairs.insert(pairs.end(), 7, {1.0, 1.122, 1.10});
  const Verdict verdict = judge(pairs, 13);
  EXPECT_EQ(verdict.slower, 15);
  EXPECT_NEAR(verdict.ratio, 1.02, 1e-9);
  EXPECT_NEAR(verdict.band, 0.10, 1e-9);
  EXPECT_EQ(verdict.finding, Finding::none);
}

TEST(Statistics, ADifferenceOfLessThanOnePercentIsNoFinding) {
  const Verdict small = judge(std::vector<Pair>(15, {1.0, 1.009, 1.0}), 13);
  EXPECT_EQ(small.slower, 15);
  EXPECT_EQ(small.finding, Finding::none);
  EXPECT_EQ(judge(std::vector<Pair>(15, {1.0, 1.011, 1.0}), 13).finding, Finding::slower);
}

TEST(Statistics, TooFewPairsOfOneKindAreNoFinding) {
  std::vector<Pair> pairs(12, {1.0, 1.2, 1.0});
  pairs.insert(pairs.end(), 3, {1.0, 1.0, 1.0});
  EXPECT_EQ(judge(pairs, 13).finding, Finding::none);
  EXPECT_EQ(judge(pairs, 12).finding, Finding::slower);
}

TEST(Statistics, EqualTimesAreNeitherSlowerNorFaster) {
  const Verdict verdict = judge(std::vector<Pair>(15, {1, 1, 1}), 13);
  EXPECT_EQ(verdict.slower + verdict.faster, 0);
  EXPECT_EQ(verdict.ratio, 1);
  EXPECT_EQ(verdict.finding, Finding::none);
}

TEST(Statistics, GeometricMeansArePairByPair) {
  const auto means = geometric_means({{{1, 2, 4}, {1, 1, 1}}, {{4, 8, 1}, {1, 9, 1}}});
  ASSERT_EQ(means.size(), 2U);
  EXPECT_DOUBLE_EQ(means[0].reference, 2);
  EXPECT_DOUBLE_EQ(means[0].build, 4);
  EXPECT_DOUBLE_EQ(means[0].control, 2);
  EXPECT_DOUBLE_EQ(means[1].build, 3);
  EXPECT_TRUE(geometric_means({}).empty());
}

TEST(BuildReport, NamesTheCellsBeyondTheNoiseAndNoOthers) {
  BuildSettings settings;
  settings.pairs = 11;
  Comparison comparison;
  const std::vector<Pair> slow(11, {240e-9, 260e-9, 241e-9});
  const std::vector<Pair> equal(11, {3e-6, 3e-6, 3e-6});
  comparison.cells.push_back({Operation::all_reduce, 2, 8, {30e-9}, slow, 4000});
  comparison.cells.push_back({Operation::broadcast, 2, 4096, {30e-9}, equal, 300});
  const std::string text = describe(settings, comparison);
  EXPECT_THAT(text, testing::HasSubstr("Beyond the noise: 1 of 2 cells:"));
  EXPECT_THAT(text, testing::HasSubstr("slower by 20 ns, 8.3 %"));
  const auto json = to_json(settings, comparison);
  EXPECT_EQ(json.at("cells").at(0).at("finding"), "slower");
  EXPECT_EQ(json.at("cells").at(1).at("finding"), "no difference");
  EXPECT_EQ(json.at("cells").at(0).at("us_per_pair").at("A'").size(), 11U);
}

}  // namespace
}  // namespace tutti::bench
