#include "engine/failure_detector.hpp"

#include "bare_groups.hpp"
#include "engine/blame.hpp"
#include "engine/detector_times.hpp"

// FailureDetector without an engine: rank 0 of a group, 1 and 2 on its host, 3 on
// another one.
namespace tutti::engine {
namespace {

using std::chrono::seconds;

constexpr int kMembers = 4;
constexpr std::uint64_t kOperation = 5;

class FailureDetectorTest : public BareGroupsTest {
 protected:
  FailureDetectorTest() {
    op_.seq = kOperation;
    op_.fingerprint = 99;
    op_.plan = &plan_;
    op_.call.timeout = seconds(10);
    op_.timer.started = bare_now;
    op_.timer.deadline = bare_now + seconds(10);
    for (const int local : {1, 2}) {
      BareGroups other(memory_, local, kMembers);
      call(other.make(7), kOperation);
    }
  }
  void pong(int peer, std::uint64_t last_seq) {
    detector_.on_pong(group_, peer, transport::PongFrame{7, last_seq, false}, {});
  }
  /// The cause at the deadline, and 200 ms later, when the others must have answered.
  std::optional<Outcome> time_out(std::vector<int> waited) {
    bare_now = op_.timer.deadline;
    return detector_.time_out(op_, bare_now, waited);
  }

  verify::sim::Memory memory_{{0, 0, 0, 1}};
  BareGroups groups_{memory_, 0, kMembers};
  NotedPings pings_;
  FailureDetector detector_{groups_.world(), pings_};
  Group& group_ = groups_.make(7);
  BoundPlan plan_;
  Op& op_ = group_.window.at(kOperation);
};

TEST_F(FailureDetectorTest, AsksOtherHostsBeforeItBlames) {
  EXPECT_EQ(time_out({1, 3}), std::nullopt);
  ASSERT_EQ(pings_.sent.size(), 1U) << "ranks of our host are looked at";
  EXPECT_EQ(pings_.sent[0].first, 3);
  EXPECT_EQ(pings_.sent[0].second.seq, kOperation);
  EXPECT_EQ(pings_.sent[0].second.fingerprint, 99U);
  EXPECT_EQ(op_.timer.deadline, bare_now + kAnswerTime);
  const auto cause = time_out({1, 3});
  expect_text(cause, "rank 3 answers nothing: it is stopped, or cut off; waiting for rank 1, 3.");
  EXPECT_EQ(cause->culprit(), 3);
  EXPECT_EQ(pings_.sent.size(), 1U);
}

TEST_F(FailureDetectorTest, AnAnswerFromBeforeTheQuestionIsNone) {
  pong(3, kOperation);
  bare_now += seconds(1);
  EXPECT_EQ(time_out({3}), std::nullopt);
  EXPECT_LT(group_.answer(3).at, op_.timer.asked);
  EXPECT_EQ(time_out({3})->culprit(), 3);
}

TEST_F(FailureDetectorTest, BlamesWhoeverIsBehindByItsAnswer) {
  EXPECT_EQ(time_out({1}), std::nullopt);
  pong(3, kOperation - 2);
  const auto cause = time_out({1});
  EXPECT_EQ(cause->culprit(), 3);
  expect_text(cause, "has not made this call yet (its last one here was operation 3)");
}

TEST_F(FailureDetectorTest, BlamesAProcessThatIsStopped) {
  EXPECT_EQ(time_out({1}), std::nullopt);
  pong(3, 1);
  set_process_state(2, "stopped");
  const auto cause = time_out({1});
  EXPECT_EQ(cause->culprit(), 2);
  expect_text(cause, "rank 2 is stopped;");
}

// Where the launcher has not reaped it yet, its process looks like one that died.
TEST_F(FailureDetectorTest, SparesARankThatIsThroughAndHasEnded) {
  set_process_state(2, "dead");
  memory_.regions(2).control().group(0).done.value.store(transport::shm::done_word(kOperation, 1));
  EXPECT_EQ(time_out({1}), std::nullopt);
  pong(3, kOperation - 1);
  EXPECT_EQ(time_out({1})->culprit(), 3);
  memory_.regions(2).control().group(0).done.value.store(
      transport::shm::done_word(kOperation - 1, 1));
  EXPECT_EQ(time_out({1})->culprit(), 2);
  memory_.regions(2).control().words().left.store(1);  // in peace
  EXPECT_EQ(time_out({1})->culprit(), 3);
}

TEST_F(FailureDetectorTest, SparesARankOfAnotherHostThatIsThroughOrHasEnded) {
  detector_.on_pong(group_, 3, transport::PongFrame{7, kOperation, false, kOperation}, {});
  bare_now += seconds(1);
  EXPECT_EQ(time_out({1}), std::nullopt);
  EXPECT_EQ(time_out({1})->culprit(), 1) << "not the one that answers no more";
  detector_.on_pong(group_, 3, transport::PongFrame{7, 0, false}, {});
  bare_now += seconds(1);
  op_.timer.asked = bare_now;
  EXPECT_EQ(time_out({1})->culprit(), 3);
  pings_.left = 3;
  EXPECT_EQ(time_out({1})->culprit(), 1);
}

TEST_F(FailureDetectorTest, AnAnswerAboutAnotherGroupIsNone) {
  EXPECT_EQ(time_out({1}), std::nullopt);
  pong(3, kOperation);
  detector_.on_pong(groups_.make(8), 3, transport::PongFrame{8, 1, false}, {});
  EXPECT_EQ(time_out({1})->culprit(), 1) << "in this one rank 3 has come";
}

TEST_F(FailureDetectorTest, BlamesTheOneWhoseCountersAreLeast) {
  EXPECT_EQ(time_out({1, 2}), std::nullopt);
  pong(3, kOperation);
  const auto counters = [&](int rank) -> auto& {
    return memory_.regions(rank).control().group(0).counter(kOperation, 0);
  };
  counters(1).value.store(kOperation << transport::shm::kCounterShift | 9);
  counters(2).value.store(kOperation << transport::shm::kCounterShift | 2);
  EXPECT_EQ(time_out({1, 2})->culprit(), 2);
  EXPECT_EQ(time_out({1, 2})->code(), Errc::timeout);
}

TEST_F(FailureDetectorTest, ConnectsBeforeTheDeadlineOnce) {
  detector_.ask_ahead(op_, op_.timer.deadline - kAskAhead - seconds(1));
  EXPECT_TRUE(pings_.sent.empty());
  detector_.ask_ahead(op_, op_.timer.deadline - kAskAhead);
  detector_.ask_ahead(op_, op_.timer.deadline - seconds(1));
  EXPECT_EQ(pings_.sent.size(), 1U) << "those of our host have come";
  EXPECT_TRUE(pings_.sent[0].second.asks_doing);
}

// Rank 1 computes, 2 is in another group; both are on our host. Rank 3 answers at the deadline.
TEST_F(FailureDetectorTest, TellsOfAllThatAreLateWhatTheyDo) {
  for (const int late : {1, 2}) {
    memory_.regions(late).control().group(0).line(kOperation).epoch.store(kOperation - 1);
  }
  detector_.ask_ahead(op_, bare_now = op_.timer.deadline - kAskAhead);
  ASSERT_EQ(pings_.sent.size(), 3U);
  const auto answer = [&](int rank, const std::string& doing) {
    detector_.on_pong(group_, rank, {7, kOperation - 1, false, kOperation - 1, true},
                      std::as_bytes(std::span(doing)));
  };
  answer(2, "group 'b', operation 1 barrier()");
  EXPECT_EQ(time_out({1}), std::nullopt);
  answer(3, "");
  const std::string late = " has not made this call yet (its last one here was operation 4) and ";
  const std::string idle = "is in no call: it computes, or waits for something else";
  expect_text(time_out({1}), ": rank 1" + late + idle + "; rank 2" + late +
                                 "is in group 'b', operation 1 barrier(); rank 3" + late + idle +
                                 "; waiting for rank 1. See");
  op_.timer.asked_ahead = bare_now - kDoingTime / 2;  // rank 1 may still answer
  expect_text(time_out({1}),
              ": rank 1 has not made this call yet (its last one here was "
              "operation 4); rank 2");
}

TEST_F(FailureDetectorTest, TellsThoseThatAreWaitedForNowAndThen) {
  op_.timer.pinged_blocking = bare_now;
  EXPECT_FALSE(FailureDetector::is_ping_due(op_, bare_now + kPingAgain / 2));
  EXPECT_TRUE(FailureDetector::is_ping_due(op_, bare_now + kPingAgain));
  EXPECT_FALSE(FailureDetector::is_ping_due(op_, bare_now + kPingAgain));
}

class FailureDetectorQueue : public FailureDetectorTest {
 protected:
  FailureDetectorQueue() {
    group_.window.skip_to(transport::shm::kWindow);
    group_.window.enqueue({.timeout = seconds(10), .input = {}, .output = {}});
    for (const int local : {1, 2}) done(local, 1);
  }
  void done(int rank, std::uint64_t upto) {
    memory_.regions(rank).control().group(0).done.value.store(transport::shm::done_word(upto, 0));
  }
  std::optional<Outcome> check(seconds later) {
    bare_now += later;
    return detector_.check_queue(group_, bare_now);
  }
};

TEST_F(FailureDetectorQueue, ACallThatWaitsForItsSlotHasTimeAsWell) {
  done(2, 0);
  EXPECT_EQ(check(seconds(0)), std::nullopt);
  EXPECT_EQ(check(seconds(9)), std::nullopt);
  EXPECT_EQ(check(seconds(1)), std::nullopt) << "it has made that call itself, and may tell more";
  const auto cause = check(seconds(11));
  expect_text(cause,
              "cannot begin: rank 2 is at operation 1, and at most 8 may be under way (waited 21 "
              "s)");
  EXPECT_EQ(cause->code(), Errc::timeout);
  EXPECT_EQ(cause->culprit(), 2);
}

TEST_F(FailureDetectorQueue, TellsWhatTheRankDoesThatItWaitsFor) {
  done(1, 0);
  for (const int later : {0, 9, 9}) EXPECT_EQ(check(seconds(later)), std::nullopt);
  EXPECT_EQ(check(seconds(1)), std::nullopt);
  ASSERT_EQ(pings_.sent.size(), 1U) << "it is asked once, in time";
  EXPECT_EQ(pings_.sent[0].first, 1);
  EXPECT_TRUE(pings_.sent[0].second.asks_doing);
  const std::string doing = "group 'b', operation 1 barrier()";
  detector_.on_pong(group_, 1, {7, 0, false, 0, true}, std::as_bytes(std::span(doing)));
  expect_text(check(seconds(2)),
              "cannot begin: rank 1 is at operation 1, and at most 8 may be under way and is in " +
                  doing + " (waited 21 s)");
}

TEST_F(FailureDetectorQueue, ARankThatHasLeftIsNamedAtOnce) {
  done(1, 0);
  memory_.regions(1).control().words().left.store(1);
  EXPECT_EQ(check(seconds(0)), std::nullopt);
  const auto cause = check(seconds(1));
  EXPECT_EQ(cause->code(), Errc::peer_left);
  EXPECT_EQ(cause->culprit(), 1);
}

TEST_F(FailureDetectorQueue, WhereAllHavePassedNobodyIsToBlame) {
  EXPECT_EQ(check(seconds(0)), std::nullopt);
  EXPECT_EQ(check(seconds(60)), std::nullopt);
}

// --- Whom a call blames, from observations alone: no clock, no memory of others.

constexpr std::uint64_t kCall = 5;

Blame blame_of(int size) {
  return Blame("operation 5", kCall, size, [](int rank) { return "rank " + std::to_string(rank); });
}

std::string text_of(const Outcome& cause) { return std::string(cause.message()); }

constexpr const char* kAdvice =
    ". See where that rank is, or raise the timeout; the group is broken.";

/// Whom it blames for a call that has waited so long, and why.
void expect_timed_out(const Blame& blame, int culprit, const std::string& why, int waited = 1) {
  EXPECT_EQ(blame.culprit(), culprit);
  const Outcome cause = blame.timed_out(seconds(waited), seconds(waited));
  EXPECT_EQ(cause.code(), Errc::timeout);
  EXPECT_EQ(cause.culprit().value_or(-1), culprit);
  const std::string time = std::to_string(waited) + " s";
  EXPECT_EQ(text_of(cause),
            "operation 5 timed out after " + time + " (timeout " + time + ")" + why + kAdvice);
}

TEST(Blame, NamesTheRankWhoseLastCallIsTheEarliest) {
  Blame blame = blame_of(4);
  blame.waits_for(1);  // our neighbour, which waits for rank 3 itself
  blame.lines(1, 5, 1);
  blame.lines(2, 9, 0);  // is beyond: that is no more than this call
  blame.lines(3, 4, 0);
  expect_timed_out(blame, 3,
                   ": rank 3 has not made this call yet (its last one here was operation 4); "
                   "waiting for rank 1",
                   2);
}

TEST(Blame, NamesTheRankThatIsFurthestBehindInTheCall) {
  Blame blame = blame_of(4);
  blame.waits_for(3);
  blame.waits_for(1);
  blame.lines(1, 5, 7);
  blame.lines(2, 5, 1);  // we wait for others: it cannot be the one
  blame.lines(3, 5, 6);
  expect_timed_out(
      blame, 3, ": rank 3 has made the call but is furthest behind in it; waiting for rank 3, 1");
}

TEST(Blame, OfACallThatGoesOnWaitingAllThatHaveNotComeAreNamed) {
  Blame blame = blame_of(8);
  blame.waits_for(1);
  blame.lines(1, 4, 0);
  blame.doing(1, "");
  blame.lines(2, 5, 1);
  blame.lines(3, 5, 3);
  blame.process(3, "stopped");
  blame.pong(4, 2);
  blame.doing(4, "group 'b', operation 1 barrier()");
  blame.silent(5);
  blame.lines(6, 4, 0);
  blame.lines(7, 4, 0);
  EXPECT_EQ(blame.waiting(seconds(31)),
            "operation 5 has waited for 31 s: rank 5 answers nothing: it is stopped, or cut off; "
            "rank 1 has not made this call yet (its last one here was operation 4) and is in no "
            "call: it computes, or waits for something else; rank 3 is stopped; has made the call "
            "but is not through with it; rank 4 has not made this call yet (its last one here was "
            "operation 2) and is in group 'b', operation 1 barrier(); and 2 more ranks");
  expect_timed_out(
      blame, 5,
      ": rank 5 answers nothing: it is stopped, or cut off; rank 1 has not made this call yet (its "
      "last one here was operation 4) and is in no call: it computes, or waits for something else; "
      "rank 3 is stopped; has made the call but is furthest behind in it; rank 4 has not made this "
      "call yet (its last one here was operation 2) and is in group 'b', operation 1 barrier(); "
      "and 2 more ranks; waiting for rank 1");
}

TEST(Blame, OfACallThatAllHaveMadeTheOneThatIsBehindIsNamed) {
  Blame blame = blame_of(3);
  blame.waits_for(1);
  blame.lines(1, 5, 2);
  blame.lines(2, 5, 1);
  EXPECT_EQ(blame.waiting(seconds(31)),
            "operation 5 has waited for 31 s: rank 1 has made the call but is not through with it");
}

TEST(Blame, OfACallThatAllHaveMadeTheBytesOfEachAreTold) {
  Blame blame = blame_of(7);
  blame.waits_for(1);
  blame.moved(0, {3000, 2000, 17});
  blame.pong(1, 5);
  blame.moved(1, {100, 200, 1});
  for (const int rank : {2, 3, 4, 5}) blame.moved(rank, {5000, 5000, 50});
  const std::string bytes =
      "; rank 1 has sent 100 bytes and received 200, 1 a second; rank 0 has sent 3000 bytes and "
      "received 2000, 17 a second; rank 2 has sent 5000 bytes and received 5000, 50 a second; rank "
      "3 has sent 5000 bytes and received 5000, 50 a second";
  EXPECT_EQ(blame.waiting(seconds(31)),
            "operation 5 has waited for 31 s: rank 1 has made the call but is not through with it" +
                bytes);
  expect_timed_out(
      blame, 1,
      ": rank 1 has made the call but is furthest behind in it; waiting for rank 1" + bytes);
  blame.pong(6, 4);  // has not come: bytes say nothing
  EXPECT_EQ(blame.waiting(seconds(31)).find("bytes"), std::string::npos);
}

TEST(Blame, WhereNoBytesHaveMovedNoneAreTold) {
  Blame blame = blame_of(2);
  blame.waits_for(1);
  blame.pong(1, 5);
  blame.moved(0, {});
  blame.moved(1, {});
  EXPECT_EQ(blame.waiting(seconds(31)).find("bytes"), std::string::npos);
}

TEST(Pace, IsOfTheLastSecondAndBeforeItsEndOfTheTimeUntilNow) {
  Pace pace;
  const auto after = [&](int ms, std::uint64_t moved) {
    pace.note(moved, TimePoint(seconds(9)) + std::chrono::milliseconds(ms));
    return pace.per_second;
  };
  EXPECT_EQ(after(0, 100), 0U);
  EXPECT_EQ(after(500, 600), 1000U);
  EXPECT_EQ(after(1000, 600), 500U);
  EXPECT_EQ(after(1500, 9000), 500U);
  EXPECT_EQ(after(2000, 9000), 8400U);
  EXPECT_EQ(after(4000, 9000), 0U);
}

TEST(Blame, ARankWithoutLinesThatIsWaitedForHasComeNowhere) {
  Blame blame = blame_of(3);
  blame.lines(1, 5, 1);
  blame.waits_for(1);
  blame.pong(2, 5);
  blame.waits_for(2);
  EXPECT_EQ(blame.culprit(), 2);
}

TEST(Blame, AProcessThatDoesNotRunGoesBeforeOneThatIsBehind) {
  Blame blame = blame_of(4);
  blame.waits_for(1);
  blame.lines(1, 1, 0);
  blame.process(1, "");
  blame.lines(2, 5, 3);
  blame.process(2, "stopped");
  expect_timed_out(blame, 2,
                   ": rank 2 is stopped; has made the call but is furthest behind in it; rank 1 "
                   "has not made this call yet (its last one here was operation 1); waiting for "
                   "rank 1");
}

TEST(Blame, OfRanksThatDoNotRunOneThatIsWaitedForIsNamed) {
  Blame blame = blame_of(4);
  blame.silent(1);
  blame.silent(3);
  blame.waits_for(3);
  EXPECT_EQ(blame.culprit(), 3);
}

TEST(Blame, ARankThatAnswersNothing) {
  Blame blame = blame_of(3);
  blame.waits_for(1);
  blame.pong(1, 2);
  blame.silent(2);
  expect_timed_out(blame, 2,
                   ": rank 2 answers nothing: it is stopped, or cut off; rank 1 has not made this "
                   "call yet (its last one here was operation 2); waiting for rank 1");
}

TEST(Blame, NobodyIsToBlameWhereNothingWasObserved) { expect_timed_out(blame_of(3), -1, ""); }

TEST(Blame, NamesAtMostEightOfThoseItWaitsFor) {
  Blame blame = blame_of(12);
  for (int rank = 1; rank < 12; ++rank) blame.waits_for(rank);
  EXPECT_THAT(text_of(blame.timed_out(seconds(1), seconds(1))),
              testing::HasSubstr("waiting for rank 1, 2, 3, 4, 5, 6, 7, 8, ..."));
}

TEST(Blame, TheFirstLossGoesBeforeAllElse) {
  Blame blame = blame_of(4);
  blame.process(1, "stopped");
  blame.lost(3, Outcome(Errc::peer_lost, "so the store notes"));
  blame.lost(2, Outcome(Errc::peer_lost, "its connection ended"));
  EXPECT_EQ(blame.culprit(), 3);
  for (const Outcome& cause : {blame.loss(), blame.timed_out(seconds(1), seconds(1))}) {
    EXPECT_EQ(cause.code(), Errc::peer_lost);
    EXPECT_EQ(cause.culprit(), 3);
    EXPECT_EQ(text_of(cause),
              "operation 5: lost rank 3: so the store notes. Look at that rank's output for the "
              "cause; the group is broken, the survivors can make a new one.");
  }
}

TEST(Blame, ALossThatEndsWithAQuestionSendsNobodyToAnOutput) {
  Blame blame = blame_of(4);
  blame.lost(3, Outcome(Errc::peer_lost, "no answer; is the network cut or the host down?"));
  EXPECT_EQ(text_of(blame.loss()),
            "operation 5: lost rank 3: no answer; is the network cut or the host down? The group "
            "is broken, the survivors can make a new one.");
}

TEST(Blame, OfALossThatIsOursAnotherRankIsToBlame) {
  Blame blame = blame_of(3);
  blame.lost(2, Outcome(Errc::resource, "no memory for what goes to it"), 0);
  EXPECT_EQ(blame.loss().culprit(), 0);
  EXPECT_THAT(text_of(blame.loss()), testing::HasSubstr("lost rank 2: no memory"));
}

TEST(Blame, ACallThatCannotBeginBlamesTheRankThatHasPassedLeast) {
  Blame blame = blame_of(4);
  blame.lines(1, 4, 0);
  blame.lines(2, 3, 0);
  blame.lines(3, 3, 0);
  const Outcome cause = blame.cannot_begin(seconds(3), 8);
  EXPECT_EQ(cause.culprit(), 2);
  EXPECT_EQ(text_of(cause),
            std::string("operation 5 cannot begin: rank 2 is at operation 4, and at most 8 may be "
                        "under way (waited 3 s)") +
                kAdvice);
}

TEST(Blame, ACallThatCannotBeginBlamesAStoppedRankAndFirstOneThatHasLeft) {
  Blame blame = blame_of(4);
  blame.lines(1, 1, 0);
  blame.lines(2, 3, 0);
  blame.process(2, "stopped");
  EXPECT_THAT(text_of(blame.cannot_begin(seconds(3), 8)),
              testing::HasSubstr("rank 2 is stopped at operation 4"));
  blame.lines(3, 4, 0);
  blame.left(3);
  const Outcome cause = blame.cannot_begin(seconds(3), 8);
  EXPECT_EQ(cause.code(), Errc::peer_left);
  EXPECT_EQ(cause.culprit(), 3);
  EXPECT_EQ(text_of(cause),
            std::string("operation 5 cannot begin: rank 3 has ended with operation 5, and at most "
                        "8 may be under way") +
                kAdvice);
}

}  // namespace
}  // namespace tutti::engine
