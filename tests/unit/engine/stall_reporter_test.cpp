#include "engine/stall_reporter.hpp"

#include <algorithm>
#include <numeric>

#include "bare_groups.hpp"
#include "base/log.hpp"
#include "engine/detector_times.hpp"

// Which rank tells of an operation that waits, and when: rank 3 of a group, 0 and 1 on another
// host, 2 and 4 on its own.
namespace tutti::engine {
namespace {

using std::chrono::seconds;

constexpr int kStallMembers = 5;
constexpr std::uint64_t kStalled = 5;

class StallReporterTest : public BareGroupsTest {
 protected:
  StallReporterTest() {
    groups_.world().stall_warning = seconds(30);
    plan_.schedule = &schedule_;
    op_.seq = kStalled;
    op_.plan = &plan_;
    op_.group = &group_;
    for (const int local : {2, 4}) {
      BareGroups other(memory_, local, kStallMembers);
      call(other.make(7), kStalled - 1);
    }
    base::set_log_sink([this](LogLevel level, std::string_view text) {
      EXPECT_EQ(level, LogLevel::warning);
      told_.emplace_back(text);
    });
  }
  ~StallReporterTest() override {
    (void)asked();  // those that no test has looked at
    base::set_log_sink({});
  }
  /// Rank 2 has made the call that waits.
  void rank_2_has_come() {
    memory_.regions(2).control().group(0).line(kStalled).epoch.store(kStalled);
  }
  void look(std::chrono::nanoseconds later) {
    bare_now += later;
    reporter_.look(op_, bare_now);
  }
  void answer(int rank, std::uint64_t last_seq, std::uint64_t passed, const std::string& doing) {
    transport::PongFrame pong{7, last_seq, false, passed, true};
    detector_.on_pong(group_, rank, pong, std::as_bytes(std::span(doing)));
  }
  [[nodiscard]] std::vector<int> asked() {
    std::vector<int> peers;
    for (const auto& [peer, ping] : std::exchange(questions_.sent, {})) {
      EXPECT_TRUE(ping.asks_doing);
      peers.push_back(peer);
    }
    return peers;
  }

  verify::sim::Memory memory_{{0, 0, 1, 1, 1}};
  BareGroups groups_{memory_, 3, kStallMembers};
  NotedPings questions_;
  FailureDetector detector_{groups_.world(), questions_};
  StallReporter reporter_{groups_.world(), detector_};
  Group& group_ = groups_.make(7);
  plan::Schedule schedule_;
  BoundPlan plan_;
  Op& op_ = group_.window.at(kStalled);
  std::vector<std::string> told_;
};

TEST_F(StallReporterTest, NobodyIsAskedBeforeItsTime) {
  look(seconds(0));
  look(seconds(29));
  EXPECT_TRUE(asked().empty());
  look(seconds(1));
  EXPECT_EQ(asked(), (std::vector<int>{0, 1})) << "2 shows that it does not wait";
}

TEST_F(StallReporterTest, ALowerRankThatWaitsTells) {
  look(seconds(0));
  look(seconds(30));
  answer(0, kStalled - 1, kStalled - 1, "");
  answer(1, kStalled, kStalled - 1, "");
  look(seconds(0));
  EXPECT_EQ(asked(), (std::vector<int>{0, 1})) << "no other";
  look(4 * kDoingTime);
  EXPECT_TRUE(told_.empty());
  look(seconds(30));
  EXPECT_EQ(asked(), (std::vector<int>{0, 1})) << "again, once it has waited twice as long";
}

TEST_F(StallReporterTest, ALowerRankOfOurHostShowsThatItWaits) {
  rank_2_has_come();
  look(seconds(0));
  look(seconds(30));
  look(4 * kDoingTime);
  EXPECT_TRUE(asked().empty()) << "memory tells";
  EXPECT_TRUE(told_.empty());
}

TEST_F(StallReporterTest, OneThatIsStoppedDoesNot) {
  rank_2_has_come();
  set_process_state(2, "stopped");
  look(seconds(0));
  look(seconds(30));
  answer(0, kStalled - 1, kStalled - 1, "group 'b', operation 2 barrier()\n");
  look(2 * kDoingTime);  // rank 1 answers nothing
  answer(0, kStalled - 1, kStalled - 1, "group 'b', operation 2 barrier()\n");
  look(kDoingTime);
  EXPECT_EQ(asked(), (std::vector<int>{0, 1, 0, 1, 2, 4}));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0].substr(0, 49), "group 'group 7', operation 5 barrier() has waited")
      << told_[0];
  for (const char* const part :
       {" for 33 s: rank 1 answers nothing: it is stopped, or cut off; rank 0 has not made this "
        "call yet (its last one here was operation 4) and is in group 'b', operation 2 "
        "barrier()\\x0a; rank 2 is stopped; has made ",
        "; rank 4 has not made this call yet (its last one here was operation 4) and is in no "
        "call: "
        "it computes, or waits for something else. It goes on waiting; the next line in 33 s"})
    EXPECT_NE(told_[0].find(part), std::string::npos) << told_[0];
}

// Rank 1 is through, and so is 2, whose process has ended; 0 and 4 are late.
TEST_F(StallReporterTest, ARankThatIsThroughIsNotNamed) {
  rank_2_has_come();
  memory_.regions(2).control().group(0).done.value.store(transport::shm::done_word(kStalled, 0));
  set_process_state(2, "dead");
  look(seconds(0));
  look(seconds(30));
  answer(1, kStalled, kStalled, "");
  look(2 * kDoingTime);
  answer(0, kStalled - 1, kStalled - 1, "");
  look(kDoingTime);  // 1 does not answer any more
  ASSERT_EQ(told_.size(), 1U);
  for (const char* const part : {"rank 0 has not made", "rank 4 has not made"})
    EXPECT_NE(told_[0].find(part), std::string::npos) << told_[0];
  for (const char* const part : {"rank 1", "rank 2"})
    EXPECT_EQ(told_[0].find(part), std::string::npos) << told_[0];
}

TEST_F(StallReporterTest, ARankOfALargeJobAsksFewBeforeItTells) {
  constexpr int kRanks = 200;
  std::vector<int> hosts(kRanks);
  std::iota(hosts.begin(), hosts.end(), 0);
  verify::sim::Memory memory(hosts);
  BareGroups groups(memory, kRanks - 1, kRanks);
  groups.world().stall_warning = seconds(30);
  FailureDetector detector(groups.world(), questions_);
  StallReporter reporter(groups.world(), detector);
  Group& group = groups.make(7);
  Op& op = group.window.at(kStalled);
  op.seq = kStalled;
  op.plan = &plan_;
  op.group = &group;
  reporter.look(op, bare_now);
  bare_now += seconds(30);
  for (int round = 0; round < 5; ++round) {  // nobody waits, or answers
    reporter.look(op, bare_now);
    bare_now += 2 * kDoingTime;
  }
  std::vector<int> few = asked();
  std::ranges::sort(few);
  EXPECT_EQ(few.size(), static_cast<std::size_t>(kMostAsked));
  EXPECT_EQ(few.front(), kRanks - 1 - kMostAsked) << "those just below it";
  reporter.look(op, bare_now);
  EXPECT_EQ(asked().size(), static_cast<std::size_t>(kRanks - 1)) << "all, as it is to tell";
  reporter.look(op, bare_now + kDoingTime);
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(StallReporterTest, TheLongestTimeMeansNever) {
  groups_.world().stall_warning = std::chrono::nanoseconds::max();
  look(seconds(0));
  look(seconds(3600));
  EXPECT_TRUE(asked().empty());
}

TEST_F(StallReporterTest, TheNextOperationBeginsAnew) {
  look(seconds(0));
  look(seconds(29));
  op_.seq += transport::shm::kWindow;
  look(seconds(29));
  look(seconds(29));
  EXPECT_TRUE(asked().empty());
  look(seconds(1));
  EXPECT_FALSE(asked().empty());
}

}  // namespace
}  // namespace tutti::engine
