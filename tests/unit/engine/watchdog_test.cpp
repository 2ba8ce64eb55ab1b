#include "engine/watchdog.hpp"

#include "engine/detector_times.hpp"
#include "engine_parts.hpp"

// The checks of a tick, without an engine.
namespace tutti::engine {
namespace {

using std::chrono::seconds;

class WatchdogTest : public EnginePartsTest {
 protected:
  WatchdogTest() : EnginePartsTest("all_reduce:exchange") {}

  void tick(std::chrono::nanoseconds later = {}) {
    parts_now += later;
    watchdog_.tick(parts_now);
  }

  Watchdog watchdog_{first_.world,
                     {first_.groups.by_id(), first_.channel, first_.propagation, first_.detector,
                      first_.agreement, first_.operations, first_.p2p}};
  Group& group_ = first_.make(7, {0, 1});
  Group& of_second_ = second_.make(7, {0, 1});
  Group& far_ = first_.make(8, {0, 2});
  std::vector<float> data_{1, 2};
};

TEST_F(WatchdogTest, TheTimeoutOfAnOperationBeginsAtItsFirstTick) {
  first_.submit(group_, Kind::barrier, data_, seconds(10));
  EXPECT_EQ(watchdog_.next_deadline(), TimePoint::max());
  tick(seconds(100));
  EXPECT_EQ(watchdog_.next_deadline(), parts_now + seconds(10));
  tick(seconds(9));
  EXPECT_FALSE(group_.broken);
  tick(seconds(1));
  expect_cause(group_, Errc::timeout, 1, "operation 1 barrier()");
  EXPECT_FALSE(first_.operations.busy());
  EXPECT_EQ(watchdog_.next_deadline(), TimePoint::max());
}

TEST_F(WatchdogTest, ARankThatHasLeftBreaksWhatWaitsForIt) {
  first_.submit(group_, Kind::barrier, data_);
  tick();
  EXPECT_FALSE(group_.broken);
  // release: pairs with Watchdog::check_left.
  memory_.regions(1).control().words().left.store(1, std::memory_order_release);
  tick();
  expect_cause(group_, Errc::peer_left, 1, "has ended, or destroyed the group");
}

TEST_F(WatchdogTest, ARankThatHasDoneItsPartBeforeItLeavesBreaksNothing) {
  first_.submit(group_, Kind::barrier, data_);
  second_.submit(of_second_, Kind::barrier, data_);
  // release: pairs with Watchdog::check_left.
  memory_.regions(1).control().words().left.store(1, std::memory_order_release);
  tick();
  first_.operations.advance_all();
  EXPECT_FALSE(group_.broken || first_.operations.busy());
}

TEST_F(WatchdogTest, ABreakOfThisHostIsHeardEvenIfItsPageSaysNothing) {
  second_.propagation.break_group(of_second_, Outcome(Errc::aborted, "enough of it"));
  memory_.regions(0).control().break_word(group_.slot).store(0);
  first_.submit(group_, Kind::barrier, data_);
  tick();
  ASSERT_TRUE(group_.broken);
  EXPECT_EQ(group_.cause.message(), "enough of it");
}

TEST_F(WatchdogTest, RanksOfOtherHostsThatAreWaitedForArePinged) {
  first_.submit(far_, Kind::all_reduce, data_);
  tick();
  EXPECT_EQ(first_.sent(transport::FrameType::ping), 0) << "not at once";
  tick(kPingAfter);
  EXPECT_EQ(first_.sent(transport::FrameType::ping), 1);
  tick(kPingAgain / 2);
  EXPECT_EQ(first_.sent(transport::FrameType::ping), 1);
  tick(kPingAgain);
  EXPECT_EQ(first_.sent(transport::FrameType::ping), 2);
}

TEST_F(WatchdogTest, ACallThatWaitsForASlotHasADeadlineToo) {
  const auto broadcast = [&](std::chrono::nanoseconds timeout) {
    first_.submit(group_, Kind::broadcast, data_, timeout);
  };
  for (unsigned i = 0; i < transport::shm::kLines; ++i) broadcast(seconds(100));
  EXPECT_TRUE(first_.operations.running().empty()) << "its root needs nobody";
  broadcast(seconds(1));
  ASSERT_EQ(first_.operations.queued(), 1) << "rank 1 has not passed the first one";
  tick();
  EXPECT_FALSE(group_.broken);
  tick(seconds(2));
  expect_cause(group_, Errc::timeout, 1, "cannot begin");
  EXPECT_EQ(first_.operations.queued(), 0);
}

}  // namespace
}  // namespace tutti::engine
