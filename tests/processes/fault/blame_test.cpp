#include <gtest/gtest.h>

#include "job.hpp"
#include "support/sleeper.hpp"

// Whom survivors blame that were connected with nobody who died: the rank that was lost first, and
// not the one that they happen to dial, which may have ended over that.
namespace tutti::fault {
namespace {

class Blame : public ::testing::TestWithParam<const char*> {
 protected:
  /// Ranks that will send to rank 3 when told.
  [[nodiscard]] static JobOptions job() {
    JobOptions options;
    options.program = RANK_WORKER;
    options.arguments = {"late", "3"};
    options.environment = way(GetParam());
    options.environment.push_back("TUTTI_TIMEOUT=10");
    return options;
  }
  /// Starts them, and waits until all wait.
  void start(const JobOptions& options = job()) {
    workers = start_job(options);
    ASSERT_NO_FATAL_FAILURE(hear_all(workers, "waiting"));
  }
  void kill(std::size_t rank) { ASSERT_NO_FATAL_FAILURE(kill_now(workers[rank])); }
  void end_in_peace(std::size_t rank) {
    workers[rank].signal(SIGUSR2);
    expect_success(workers[rank]);
  }
  /// Tells a survivor to go on, and what its error begins with: code and culprit.
  void expect_blame(std::size_t rank, const std::string& begin, const std::string& part) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const long long told = now_ns();
    workers[rank].signal(SIGUSR1);
    Said error;
    ASSERT_NO_FATAL_FAILURE(wait_for_error(workers[rank], error));
    std::printf("told after %.1f ms: %s\n", static_cast<double>(error.at - told) / 1e6,
                error.text.c_str());
    EXPECT_EQ(error.text.substr(0, begin.size()), begin) << error.text;
    expect_has(error.text, part);
  }
  std::vector<Worker> workers;
};
INSTANTIATE_TEST_SUITE_P(Fault, Blame, ::testing::Values("tcp", "tls"), name_of_way);

TEST_P(Blame, TheStoreKnowsWhoWasLostFirst) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  ASSERT_NO_FATAL_FAILURE(start(options));
  ASSERT_NO_FATAL_FAILURE(kill(2));
  EXPECT_EQ(store->get("tutti/1/lost", std::chrono::seconds(10)), "2");
  ASSERT_NO_FATAL_FAILURE(kill(3));
  EXPECT_EQ(store->get("tutti/1/lost/3", std::chrono::seconds(10)), "3") << "lost later, too";
  for (const std::size_t rank : {1U, 0U})
    expect_blame(rank, "peer_lost 2 ",
                 "its connection to the store ended unexpectedly, before any other's");
}

/// A store that the ranks have made themselves, and keep longer than the world.
std::shared_ptr<TcpStore> serve_given_store(const std::string& name, JobOptions& options) {
  std::shared_ptr<TcpStore> store = serve_store(name, options);
  options.environment.push_back("FAULT_GIVEN_STORE=" + std::to_string(store->port()));
  return store;
}

TEST_P(Blame, AGivenStoreKnowsWhoWasLostFirst) {
  JobOptions options = job();
  const auto store = serve_given_store(GetParam(), options);
  ASSERT_NO_FATAL_FAILURE(start(options));
  ASSERT_NO_FATAL_FAILURE(kill(2));
  EXPECT_EQ(store->get("given/tutti/1/lost", std::chrono::seconds(10)), "2");
  ASSERT_NO_FATAL_FAILURE(kill(3));
  EXPECT_EQ(store->get("given/tutti/1/lost/3", std::chrono::seconds(10)), "3");
  for (const std::size_t rank : {1U, 0U}) expect_blame(rank, "peer_lost 2 ", "lost rank 2 ");
}

TEST_P(Blame, WhoEndsInPeaceWithAGivenStoreIsNotTakenForLost) {
  JobOptions options = job();
  const auto store = serve_given_store(GetParam(), options);
  ASSERT_NO_FATAL_FAILURE(start(options));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(1));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  EXPECT_EQ(store->get("given/tutti/1/lost", std::chrono::seconds(10)), "3");
  EXPECT_FALSE(store->check("given/tutti/1/lost/1"));
  expect_blame(0, "peer_lost 3 ", "nobody listens there any more");
}

TEST_P(Blame, TheEndOfTheStoreIsThatOfTheRankThatServesIt) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_NO_FATAL_FAILURE(kill(0));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  for (const std::size_t rank : {1U, 2U})
    expect_blame(rank, "peer_lost 0 ", "the store that it serves is gone");
}

TEST_P(Blame, WhoWasLostFirstIsBlamedWhereItIsTheOneThatIsDialled) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  ASSERT_NO_FATAL_FAILURE(start(options));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  EXPECT_EQ(store->get("tutti/1/lost", std::chrono::seconds(10)), "3");
  ASSERT_NO_FATAL_FAILURE(kill(2));
  expect_blame(1, "peer_lost 3 ", "nobody listens there any more");
}

TEST_P(Blame, WhoEndsInPeaceWithoutDestroyingAnythingIsNotTakenForLost) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  ASSERT_NO_FATAL_FAILURE(start(options));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(1));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  EXPECT_EQ(store->get("tutti/1/lost", std::chrono::seconds(10)), "3");
  EXPECT_FALSE(store->check("tutti/1/lost/1"));
  expect_blame(0, "peer_lost 3 ", "nobody listens there any more");
}

TEST_P(Blame, NobodyIsTakenForLostWhoEndedInPeace) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  ASSERT_NO_FATAL_FAILURE(start(options));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(3));
  expect_blame(0, "peer_left 3 ", "rank 3");
}

TEST_P(Blame, RankThatServedTheStoreAndEndedInPeaceIsNotTakenForLost) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_NO_FATAL_FAILURE(end_in_peace(0));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  for (const std::size_t rank : {1U, 2U})
    expect_blame(rank, "peer_lost 3 ", "nobody listens there any more");
}

TEST_P(Blame, StoreThatStandsStillIsNotWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(start());
  workers[0].signal(SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(kill(3));
  const test::Sleeper sleeper;
  const long long since = now_ns();
  expect_blame(1, "peer_lost 3 ", "nobody listens there any more");
  const auto error = workers[1].heard("error");
  ASSERT_TRUE(error);
  EXPECT_LT(static_cast<double>(error->at - since) / 1e6, sleeper.bound_ms(2000, since, error->at));
}

}  // namespace
}  // namespace tutti::fault
