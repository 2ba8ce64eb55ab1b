#include "os/running_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace tutti::os {
namespace {

using namespace std::chrono_literals;

constexpr RunningClock::TimePoint kBegin{1h};

TEST(RunningClock, TellsTheTimeOfAProcessThatRuns) {
  static RunningClock clock;
  for (auto at = kBegin; at < kBegin + 20s; at += 200ms) EXPECT_EQ(clock.at(at), at);
}

TEST(RunningClock, CountsOneSecondOfALongGap) {
  static RunningClock clock;
  EXPECT_EQ(clock.at(kBegin), kBegin);
  EXPECT_EQ(clock.at(kBegin + 60s), kBegin + 1s);
  EXPECT_EQ(clock.at(kBegin + 61s), kBegin + 2s);
  EXPECT_EQ(clock.at(kBegin + 100s), kBegin + 3s);
}

TEST(RunningClock, DoesNotGoBackForAThreadThatReadTheTimeBeforeTheStop) {
  static RunningClock clock;
  (void)clock.at(kBegin);
  const auto after = clock.at(kBegin + 60s);
  EXPECT_EQ(clock.at(kBegin + 1ms), after);
}

}  // namespace
}  // namespace tutti::os
