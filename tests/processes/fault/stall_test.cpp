#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "job.hpp"

// An operation that waits long is told in the log, by one rank of its group (docs/errors.md).
namespace tutti::fault {
namespace {

constexpr double kStallHang = 60;  // seconds

class Stall : public ::testing::TestWithParam<const char*> {
 protected:
  /// Four ranks that have come to where rank 1 stays away.
  void start(const std::string& what, const std::string& after = "0.3",
             const std::string& timeout = "1800") {
    JobOptions options;
    options.program = FAULT_WORKER;
    options.arguments = {"stalled", what};
    options.environment = way(GetParam());
    options.environment.push_back("TUTTI_STALL_WARNING=" + after);
    options.environment.push_back("TUTTI_TIMEOUT=" + timeout);
    options.hosts = hosts_of(GetParam());
    workers_ = start_job(options);
    for (Worker& worker : workers_) ASSERT_TRUE(worker.hear("there", in(kStallHang)));
  }
  /// The text of its warning of that number, from 1; empty: none has come.
  std::string warning(std::size_t rank, int number = 1) {
    const auto deadline = in(kStallHang);
    while (true) {
      int count = 0;
      for (const Said& said : workers_[rank].said()) {
        if (said.word == "warned" && ++count == number) return said.text;
      }
      const std::size_t known = workers_[rank].said().size();
      (void)workers_[rank].hear("line " + std::to_string(known), Clock::now() + kLook);
      if (Clock::now() > deadline) return {};
    }
  }
  /// Lets rank 1 go on. Then how many warnings each rank has told; they are shown where that fails.
  std::vector<int> end() {
    workers_[1].signal(SIGCONT);
    workers_[1].signal(SIGUSR1);
    std::vector<int> counts;
    for (Worker& worker : workers_) {
      const auto status = worker.wait(in(kStallHang));
      EXPECT_TRUE(status && status->success());
      int count = 0;
      for (const Said& said : worker.said()) {
        if (said.word != "warned") continue;
        ++count;
        told_ += "rank " + std::to_string(counts.size()) + ": " + said.text + "\n";
      }
      counts.push_back(count);
    }
    return counts;
  }
  [[nodiscard]] static bool by_messages() { return std::string(GetParam()) != "shm"; }
  std::vector<Worker> workers_;
  std::string told_;

 private:
  static constexpr auto kLook = std::chrono::milliseconds(100);
};
INSTANTIATE_TEST_SUITE_P(Fault, Stall, ::testing::Values("shm", "tcp", "mixed"),
                         [](const auto& transport) { return std::string(transport.param); });

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' has no '" << part << "'";
}

TEST_P(Stall, OneRankTellsWhoHasNotComeAndAgainLater) {
  ASSERT_NO_FATAL_FAILURE(start("barrier"));
  const std::string first = warning(0);
  EXPECT_EQ(first.substr(0, 52), "group 'world', operation 3 barrier() has waited for ") << first;
  expect_has(first, "s: rank 1 on ");
  expect_has(
      first,
      " has not made this call yet (its last one here was operation 2) and is in no call: it "
      "computes, or waits for something else. It goes on waiting; the next line in ");
  EXPECT_NE(warning(0, 2), "");
  const std::vector<int> counts = end();
  EXPECT_GE(counts[0], 2);
  EXPECT_EQ(counts[1] + counts[2] + counts[3], 0) << told_;
}

TEST_P(Stall, ARankThatIsStopped) {
  ASSERT_NO_FATAL_FAILURE(start("barrier"));
  workers_[1].signal(SIGSTOP);
  std::string text;
  for (int number = 1; number < 4; ++number) {  // the first may come before the signal
    text = warning(0, number);
    if (text.find("in no call") == std::string::npos) break;
  }
  if (std::string(GetParam()) == "shm")
    expect_has(text, " is stopped; has not made this call yet");
  else
    expect_has(text, " answers nothing: it is stopped, or cut off");
  const std::vector<int> counts = end();
  EXPECT_EQ(counts[1] + counts[2] + counts[3], 0) << told_;
}

TEST_P(Stall, ARankInAnOperationOfAnotherGroup) {
  ASSERT_NO_FATAL_FAILURE(start("elsewhere"));
  expect_has(warning(0),
             " has not made this call yet (its last one here was operation 2) and is in "
             "group 'world[1,2]', operation 1 barrier().");
  expect_has(warning(1), "rank 1 (global rank 2) on ");
  expect_has(warning(1), "and is in group 'world', operation 3 barrier().");
  for (Worker& worker : workers_) worker.signal(SIGKILL);
}

TEST_P(Stall, AReceiveThatWaitsForItsSend) {
  ASSERT_NO_FATAL_FAILURE(start("receive"));
  const std::string text = warning(0);
  EXPECT_EQ(text.substr(0, 39), "group 'world' of 4 ranks, recv(from 1, ") << text;
  expect_has(text, " has not sent it and is in no call: it computes, or waits");
  const std::vector<int> counts = end();
  EXPECT_EQ(counts[1] + counts[2] + counts[3], 0) << told_;
}

TEST_P(Stall, ACallThatCannotBegin) {
  if (by_messages()) return;  // there a small broadcast does not wait for its receivers
  ASSERT_NO_FATAL_FAILURE(start("queue"));
  const std::string text = warning(0);
  expect_has(text, "broadcast(");
  expect_has(text, " is at operation 3, and at most 8 may be under way");
  const std::vector<int> counts = end();
  EXPECT_EQ(counts[1] + counts[2] + counts[3], 0) << told_;
}

// Rank 3 waits for rank 1, and does not need 0 and 2, which have served it or its host. It had no
// connection with one of them, and nobody serves the store any more.
TEST_P(Stall, TheQuestionTakesNoRankForLostThatHasEndedInPeace) {
  if (std::string(GetParam()) != "mixed") return;
  ASSERT_NO_FATAL_FAILURE(start("queue"));
  expect_has(warning(3), "broadcast(root 0, int32 x 1) has waited for ");
  (void)end();
}

// Ctrl-Z and fg.
TEST_P(Stall, AJobThatWasStoppedForLongerThanItsTimeoutGoesOn) {
  if (std::string(GetParam()) != "mixed") return;  // which has both ways
  constexpr auto kTimeout = std::chrono::seconds(10);
  ASSERT_NO_FATAL_FAILURE(start("barrier", "0.3", std::to_string(kTimeout.count())));
  ASSERT_NE(warning(0), "") << "its time runs";
  for (Worker& worker : workers_) worker.signal(SIGSTOP);
  std::this_thread::sleep_for(kTimeout + std::chrono::seconds(2));  // the time is what is tested
  for (Worker& worker : workers_) worker.signal(SIGCONT);
  (void)end();
}

TEST_P(Stall, ZeroMeansNever) {
  ASSERT_NO_FATAL_FAILURE(start("barrier", "0"));
  // As long as a warning after 0.3 s takes to come, beside a job that has it.
  std::vector<Worker> quiet = std::move(workers_);
  ASSERT_NO_FATAL_FAILURE(start("barrier"));
  EXPECT_NE(warning(0), "");
  (void)end();
  workers_ = std::move(quiet);
  EXPECT_EQ(end(), std::vector<int>(4, 0)) << told_;
}

}  // namespace
}  // namespace tutti::fault
