#include <thread>

#include "job.hpp"

// An operation that waits long is told in the log, by one rank of its group
// (docs/reference/errors.md).
namespace tutti::fault {
namespace {

class Stalled : public ::testing::Test {
 protected:
  /// Four ranks that have come to where rank 1 stays away.
  void start_over(const std::string& transport, const std::string& what,
                  const std::string& after = "0.3", const std::string& timeout = "1800") {
    JobOptions options = job_of(transport, {"stalled", what}, timeout);
    options.environment.push_back("TUTTI_STALL_WARNING=" + after);
    workers_ = start_job(options);
    hear_all(workers_, "there");
  }
  /// The text of its warning of that number, from 1; empty: none has come.
  std::string warning(std::size_t rank, int number = 1) {
    const auto deadline = in(kHang);
    while (true) {
      int count = 0;
      for (const Said& said : workers_[rank].said())
        if (said.word == "warned" && ++count == number) return said.text;
      const std::size_t known = workers_[rank].said().size();
      (void)workers_[rank].hear_by("line " + std::to_string(known), Clock::now() + kLook);
      if (Clock::now() < deadline) continue;
      test::print_stacks_of_children();
      return {};
    }
  }
  /// Lets rank 1 go on. Then how many warnings each rank has told; they are shown where that fails.
  std::vector<int> end() {
    workers_[1].signal(SIGCONT);
    workers_[1].signal(SIGUSR1);
    std::vector<int> counts;
    for (Worker& worker : workers_) {
      expect_success(worker);
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
  /// ... of which only rank 0 warns.
  void end_quietly() {
    const std::vector<int> counts = end();
    EXPECT_EQ(counts[1] + counts[2] + counts[3], 0) << told_;
  }
  std::vector<Worker> workers_;
  std::string told_;

 private:
  static constexpr auto kLook = std::chrono::milliseconds(100);
};

class Stall : public Stalled, public ::testing::WithParamInterface<const char*> {
 protected:
  void start(const std::string& what, const std::string& after = "0.3") {
    start_over(GetParam(), what, after);
  }
};
INSTANTIATE_TEST_SUITE_P(Fault, Stall, ::testing::Values("shm", "tcp", "mixed"), name_of_way);

TEST_P(Stall, OneRankTellsWhoHasNotComeAndAgainLater) {
  ASSERT_NO_FATAL_FAILURE(start("barrier"));
  const std::string first = warning(0);
  EXPECT_THAT(first, testing::StartsWith("group 'world', operation 3 barrier() has waited for "));
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
  end_quietly();
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
  EXPECT_THAT(text, testing::StartsWith("group 'world' of 4 ranks, recv(from 1, "));
  expect_has(text, " has not sent it and is in no call: it computes, or waits");
  end_quietly();
}

// By messages a small broadcast does not wait for its receivers.
TEST_F(Stalled, ACallThatCannotBeginInSharedMemory) {
  ASSERT_NO_FATAL_FAILURE(start_over("shm", "queue"));
  const std::string text = warning(0);
  expect_has(text, "broadcast(");
  expect_has(text, " is at operation 3, and at most 64 may be under way");
  end_quietly();
}

// Rank 3 waits for rank 1, and does not need 0 and 2, which have served it or its host. It had no
// connection with one of them, and nobody serves the store any more.
TEST_F(Stalled, TheQuestionTakesNoRankForLostThatHasEndedInPeace) {
  ASSERT_NO_FATAL_FAILURE(start_over("mixed", "queue"));
  expect_has(warning(3), "broadcast(root 0, int32 x 1) has waited for ");
  (void)end();
}

// Ctrl-Z and fg. Mixed, which has both ways.
TEST_F(Stalled, AJobThatWasStoppedForLongerThanItsTimeoutGoesOn) {
  constexpr auto kTimeout = std::chrono::seconds(10);
  ASSERT_NO_FATAL_FAILURE(start_over("mixed", "barrier", "0.3", std::to_string(kTimeout.count())));
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
