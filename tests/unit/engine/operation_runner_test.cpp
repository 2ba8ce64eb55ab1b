#include "engine/operation_runner.hpp"

#include "engine_parts.hpp"

// How operations begin, run and end, without an engine.
namespace tutti::engine {
namespace {

using transport::shm::kLines;
using transport::shm::kWindow;

class OperationRunnerTest : public EnginePartsTest {
 protected:
  /// Both ranks of the host do what they can.
  void advance() {
    for (int pass = 0; pass < 1000; ++pass) {
      bool moved = false;
      for (EngineParts* const rank : {&first_, &second_}) {
        moved |= rank->operations.advance_all();
        moved |= rank->operations.start_queued();
      }
      if (!moved) return;
    }
    FAIL() << "this never ends";
  }

  Group& group_ = first_.make(7, {0, 1});
  Group& of_second_ = second_.make(7, {0, 1});
  std::vector<float> data_{1, 2};
  std::vector<float> other_{10, 20};
};

TEST_F(OperationRunnerTest, AnOperationRunsToItsEndAndCallsBack) {
  const std::uint64_t ticket = first_.submit(group_, Kind::all_reduce, data_);
  EXPECT_EQ(ticket, 1U);
  first_.on_done(group_, ticket);
  EXPECT_TRUE(first_.operations.busy());
  EXPECT_THAT(first_.operations.running(), testing::ElementsAre(&group_.window.at(ticket)));
  EXPECT_THAT(first_.operations.running_text(),
              testing::StartsWith("group 'group 7', operation 1 all_reduce("));
  second_.submit(of_second_, Kind::all_reduce, other_);
  advance();
  EXPECT_EQ(data_, (std::vector<float>{11, 22}));
  EXPECT_FALSE(first_.operations.busy() || second_.operations.busy());
  EXPECT_EQ(first_.operations.running_text(), "");
  const std::vector<Finished> finished = first_.completions.take();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_TRUE(finished[0].status.ok());
  EXPECT_EQ(group_.window.done_upto(), 1U);
}

TEST_F(OperationRunnerTest, CallsBehindAFullWindowBeginInTheirOrder) {
  constexpr std::uint64_t kCalls = transport::shm::kWindow + 3;
  std::vector<std::vector<float>> data(kCalls, {1, 2});
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(first_.submit(group_, Kind::all_reduce, data[i]), i + 1);
    first_.on_done(group_, i + 1);
  }
  EXPECT_EQ(first_.operations.queued(), 3);
  EXPECT_EQ(first_.operations.running().size(), transport::shm::kWindow);
  EXPECT_FALSE(first_.operations.start_queued()) << "no slot is free";
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    second_.submit(of_second_, Kind::all_reduce, other_);
    advance();
    other_ = {10, 20};
  }
  EXPECT_FALSE(first_.operations.busy() || second_.operations.busy());
  EXPECT_EQ(first_.completions.size(), kCalls);
  for (const std::vector<float>& one : data) EXPECT_EQ(one, (std::vector<float>{11, 22}));
}

TEST_F(OperationRunnerTest, ARootIsAheadAsFarAsItsCallsNeedNoMoreThanTheirLines) {
  for (int i = 0; i < kLines; ++i) first_.submit(group_, Kind::broadcast, data_);
  EXPECT_FALSE(first_.operations.busy()) << "all have ended here";
  std::vector<float> large(1 << 18, 1);
  first_.submit(group_, Kind::broadcast, large);
  second_.submit(of_second_, Kind::broadcast, other_);
  first_.submit(group_, Kind::broadcast, data_);
  EXPECT_EQ(first_.operations.queued(), 2) << "the large one, and the small one behind it";
  for (int i = 2; i <= kLines - transport::shm::kWindow; ++i) {
    second_.submit(of_second_, Kind::broadcast, other_);
    EXPECT_EQ(first_.operations.queued(), 2);
    EXPECT_FALSE(first_.operations.start_queued()) << i;
  }
  EXPECT_EQ(other_, data_);
  second_.submit(of_second_, Kind::broadcast, other_);
  EXPECT_TRUE(first_.operations.start_queued());
  EXPECT_EQ(first_.operations.queued(), 0);
  for (int i = 1; i < transport::shm::kWindow; ++i)
    second_.submit(of_second_, Kind::broadcast, other_);
  std::vector<float> got(large.size());
  second_.submit(of_second_, Kind::broadcast, got);
  second_.submit(of_second_, Kind::broadcast, other_);
  advance();
  EXPECT_FALSE(first_.operations.busy() || second_.operations.busy());
  EXPECT_EQ(got, large);
}

TEST_F(OperationRunnerTest, ARankThatOnlyReceivesWakesARootThatWaitsForRoomNowAndThen) {
  std::atomic<std::uint32_t>& park = memory_.regions(0).control().words().park;
  for (int i = 0; i < kLines; ++i) first_.submit(group_, Kind::broadcast, data_);
  park.store(transport::shm::sleep_word(1));
  for (int i = 1; i <= 16; ++i) {
    EXPECT_NE(park.load(), 0U) << i;
    second_.submit(of_second_, Kind::broadcast, other_);
  }
  EXPECT_EQ(park.load(), 0U);
}

TEST_F(OperationRunnerTest, ACallThatDiffersIsNamedThoughItsRankIsFarAhead) {
  std::vector<float> longer(3);
  // Neither needs anything from the other one: a broadcast from the one, a reduce to it.
  for (int i = 1; i < kLines; ++i) {
    first_.submit(group_, Kind::broadcast, data_);
    second_.submit(of_second_, Kind::reduce, longer);
  }
  ASSERT_FALSE(group_.broken || of_second_.broken);
  first_.submit(group_, Kind::broadcast, data_);
  second_.submit(of_second_, Kind::broadcast, other_);
  EXPECT_TRUE(of_second_.broken) << "it compares with its root's line";
  expect_cause(of_second_, Errc::disagreement, std::nullopt,
               "as operation 1 rank 1 called reduce(");
  EXPECT_THAT(std::string(of_second_.cause.message()),
              testing::HasSubstr("but rank 0 called broadcast("));
}

TEST_F(OperationRunnerTest, ARootLearnsOfAnotherCallWhenItsLinesAreUsedUp) {
  std::vector<float> longer(3);
  for (int i = 0; i < kLines; ++i) {
    first_.submit(group_, Kind::broadcast, data_);
    second_.submit(of_second_, Kind::reduce, longer);
  }
  ASSERT_FALSE(group_.broken || of_second_.broken);
  first_.submit(group_, Kind::broadcast, data_);
  expect_cause(group_, Errc::disagreement, std::nullopt, "as operation 1 rank 0 called broadcast(");
  EXPECT_THAT(std::string(group_.cause.message()), testing::HasSubstr("but rank 1 called reduce("));
  EXPECT_FALSE(first_.operations.busy());
}

TEST_F(OperationRunnerTest, ABreakEndsWhatRunsAndWhatWaits) {
  constexpr std::uint64_t kCalls = transport::shm::kWindow + 2;
  for (std::uint64_t i = 1; i <= kCalls; ++i)
    first_.on_done(group_, first_.submit(group_, Kind::barrier, data_));
  first_.propagation.break_group(group_, Outcome(Errc::aborted, "enough of it"));
  EXPECT_FALSE(first_.operations.busy());
  EXPECT_EQ(first_.operations.queued(), 0);
  const std::vector<Finished> finished = first_.completions.take();
  EXPECT_EQ(finished.size(), kCalls);
  for (const Finished& one : finished) EXPECT_EQ(one.status.message(), "enough of it");
  first_.submit(group_, Kind::barrier, data_);
  EXPECT_FALSE(first_.operations.busy()) << "nothing begins in a broken group";
}

TEST_F(OperationRunnerTest, AnotherCallBreaksTheGroupWithBothNames) {
  first_.submit(group_, Kind::all_reduce, data_);
  std::vector<float> longer(3);
  second_.submit(of_second_, Kind::all_reduce, longer);
  advance();
  ASSERT_TRUE(group_.broken || of_second_.broken);
  const Group& broken = group_.broken ? group_ : of_second_;
  EXPECT_EQ(broken.cause.code(), Errc::disagreement);
  for (const char* const part : {"rank 0 called all_reduce(", "rank 1 called all_reduce("})
    EXPECT_THAT(std::string(broken.cause.message()), testing::HasSubstr(part));
}

TEST_F(OperationRunnerTest, AnotherGroupGoesOnWhenOneBreaks) {
  Group& other = first_.make(8, {0, 1});
  Group& other_of_second = second_.make(8, {0, 1});
  first_.submit(group_, Kind::barrier, data_);
  first_.submit(other, Kind::all_reduce, data_);
  first_.propagation.break_group(group_, Outcome(Errc::aborted, "enough of it"));
  second_.submit(other_of_second, Kind::all_reduce, other_);
  advance();
  EXPECT_FALSE(other.broken || first_.operations.busy());
  EXPECT_EQ(data_, (std::vector<float>{11, 22}));
}

TEST_F(OperationRunnerTest, OperationsWithMessagesAreCountedWhileTheyRun) {
  Group& far = first_.make(9, {0, 2});
  first_.submit(far, Kind::all_reduce, data_);
  EXPECT_EQ(first_.channel.operations(), 1);
  EXPECT_EQ(first_.sent(transport::FrameType::data), 1);
  first_.propagation.break_group(far, Outcome(Errc::aborted, "enough of it"));
  EXPECT_EQ(first_.channel.operations(), 0);
}

}  // namespace
}  // namespace tutti::engine
