#include <gtest/gtest.h>

#include "job.hpp"
#include "support/sleeper.hpp"

// Whom survivors blame that were connected with nobody who died: the rank that was lost first, and
// not the one that they happen to dial, which may have ended over that.
namespace tutti::fault {
namespace {

constexpr double kBlameHang = 60;  // seconds

class Blame : public ::testing::TestWithParam<const char*> {
 protected:
  /// Ranks that will send to rank 3 when told.
  [[nodiscard]] static JobOptions job() {
    JobOptions options;
    options.program = FAULT_WORKER;
    options.arguments = {"late", "3"};
    options.environment = way(GetParam());
    options.environment.push_back("TUTTI_TIMEOUT=10");
    return options;
  }
  static void wait_for_all(std::vector<Worker>& workers) {
    for (Worker& worker : workers) ASSERT_TRUE(worker.hear("waiting", in(kBlameHang)));
  }
  static void kill(Worker& worker) {
    worker.signal(SIGKILL);
    ASSERT_TRUE(worker.wait(in(kBlameHang)));
  }
  static void end_in_peace(Worker& worker) {
    worker.signal(SIGUSR2);
    const auto status = worker.wait(in(kBlameHang));
    ASSERT_TRUE(status);
    EXPECT_TRUE(status->success());
  }
  /// Tells a survivor to go on, and what its error begins with: code and culprit.
  static void expect_blame(Worker& worker, const std::string& begin, const std::string& part) {
    const long long told = now_ns();
    worker.signal(SIGUSR1);
    ASSERT_TRUE(worker.wait(in(kBlameHang))) << "hangs";
    const auto error = worker.hear("error", in(0));
    ASSERT_TRUE(error);
    std::printf("told after %.1f ms: %s\n", static_cast<double>(error->at - told) / 1e6,
                error->text.c_str());
    EXPECT_EQ(error->text.substr(0, begin.size()), begin) << error->text;
    EXPECT_NE(error->text.find(part), std::string::npos) << error->text;
  }
};
INSTANTIATE_TEST_SUITE_P(Fault, Blame, ::testing::Values("tcp", "tls"),
                         [](const auto& transport) { return std::string(transport.param); });

TEST_P(Blame, TheStoreKnowsWhoWasLostFirst) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(kill(workers[2]));
  EXPECT_EQ(store->get("tutti/1/lost", std::chrono::seconds(10)), "2");
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  EXPECT_EQ(store->get("tutti/1/lost/3", std::chrono::seconds(10)), "3") << "lost later, too";
  for (const std::size_t rank : {1U, 0U}) {
    SCOPED_TRACE(rank);
    expect_blame(workers[rank], "peer_lost 2 ",
                 "its connection to the store ended unexpectedly, before any other's");
  }
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
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(kill(workers[2]));
  EXPECT_EQ(store->get("given/tutti/1/lost", std::chrono::seconds(10)), "2");
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  EXPECT_EQ(store->get("given/tutti/1/lost/3", std::chrono::seconds(10)), "3");
  for (const std::size_t rank : {1U, 0U}) {
    SCOPED_TRACE(rank);
    expect_blame(workers[rank], "peer_lost 2 ", "lost rank 2 ");
  }
}

TEST_P(Blame, WhoEndsInPeaceWithAGivenStoreIsNotTakenForLost) {
  JobOptions options = job();
  const auto store = serve_given_store(GetParam(), options);
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(workers[1]));
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  EXPECT_EQ(store->get("given/tutti/1/lost", std::chrono::seconds(10)), "3");
  EXPECT_FALSE(store->check("given/tutti/1/lost/1"));
  expect_blame(workers[0], "peer_lost 3 ", "nobody listens there any more");
}

TEST_P(Blame, TheEndOfTheStoreIsThatOfTheRankThatServesIt) {
  auto workers = start_job(job());
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(kill(workers[0]));
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  for (const std::size_t rank : {1U, 2U}) {
    SCOPED_TRACE(rank);
    expect_blame(workers[rank], "peer_lost 0 ", "the store that it serves is gone");
  }
}

TEST_P(Blame, WhoWasLostFirstIsBlamedWhereItIsTheOneThatIsDialled) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  EXPECT_EQ(store->get("tutti/1/lost", std::chrono::seconds(10)), "3");
  ASSERT_NO_FATAL_FAILURE(kill(workers[2]));
  expect_blame(workers[1], "peer_lost 3 ", "nobody listens there any more");
}

TEST_P(Blame, WhoEndsInPeaceWithoutDestroyingAnythingIsNotTakenForLost) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(workers[1]));
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  EXPECT_EQ(store->get("tutti/1/lost", std::chrono::seconds(10)), "3");
  EXPECT_FALSE(store->check("tutti/1/lost/1"));
  expect_blame(workers[0], "peer_lost 3 ", "nobody listens there any more");
}

TEST_P(Blame, NobodyIsTakenForLostWhoEndedInPeace) {
  JobOptions options = job();
  const auto store = serve_store(GetParam(), options);
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(workers[3]));
  expect_blame(workers[0], "peer_left 3 ", "rank 3");
}

TEST_P(Blame, RankThatServedTheStoreAndEndedInPeaceIsNotTakenForLost) {
  auto workers = start_job(job());
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(workers[0]));
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  for (const std::size_t rank : {1U, 2U}) {
    SCOPED_TRACE(rank);
    expect_blame(workers[rank], "peer_lost 3 ", "nobody listens there any more");
  }
}

TEST_P(Blame, StoreThatStandsStillIsNotWaitedFor) {
  auto workers = start_job(job());
  ASSERT_NO_FATAL_FAILURE(wait_for_all(workers));
  workers[0].signal(SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(kill(workers[3]));
  const test::Sleeper sleeper;
  const long long since = now_ns();
  expect_blame(workers[1], "peer_lost 3 ", "nobody listens there any more");
  const auto error = workers[1].hear("error", in(0));
  ASSERT_TRUE(error);
  EXPECT_LT(static_cast<double>(error->at - since) / 1e6, sleeper.bound_ms(2000, since, error->at));
}

}  // namespace
}  // namespace tutti::fault
