#include "os/running_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace tutti::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr RunningClock::TimePoint kBegin{std::chrono::hours(1)};

TEST(RunningClock, TellsTheTimeOfAProcessThatRuns) {
  static RunningClock clock;
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(clock.at(kBegin + i * milliseconds(200)), kBegin + i * milliseconds(200));
}

TEST(RunningClock, CountsOneSecondOfALongGap) {
  static RunningClock clock;
  EXPECT_EQ(clock.at(kBegin), kBegin);
  EXPECT_EQ(clock.at(kBegin + seconds(60)), kBegin + seconds(1));
  EXPECT_EQ(clock.at(kBegin + seconds(61)), kBegin + seconds(2));
  EXPECT_EQ(clock.at(kBegin + seconds(100)), kBegin + seconds(3));
}

TEST(RunningClock, DoesNotGoBackForAThreadThatReadTheTimeBeforeTheStop) {
  static RunningClock clock;
  (void)clock.at(kBegin);
  const auto after = clock.at(kBegin + seconds(60));
  EXPECT_EQ(clock.at(kBegin + milliseconds(1)), after);
}

}  // namespace
}  // namespace tutti::os
