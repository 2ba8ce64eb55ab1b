#include "job.hpp"
#include "support/sleeper.hpp"

// Whom survivors blame that were connected with nobody who died: the rank that was lost first, and
// not the one that they happen to dial, which may have ended over that.
namespace tutti::fault {
namespace {

class Blame : public ::testing::TestWithParam<const char*> {
 protected:
  enum class Store {
    of_test,    ///< this process serves it
    given,      ///< ... and the ranks have made it themselves, and keep it longer than the world
    of_rank_0,  ///< it serves it
  };
  /// Starts ranks that will send to rank 3 when told, and waits until all wait.
  void start(Store served, bool firewall = false) {
    JobOptions options = job_of(GetParam(), {"late", "3"}, "10");
    if (served != Store::of_rank_0) store_ = serve_store(GetParam(), options);
    if (served == Store::given) {
      options.environment.push_back("FAULT_GIVEN_STORE=" + std::to_string(store_->port()));
      prefix_ = "given/tutti/1/";
    }
    if (firewall) {
      const os::Fd nobody = os::listen_tcp(os::Address::parse("127.0.0.1", 0).value(), 1).value();
      const int told = os::local_address(nobody.get()).value().port();
      for (int rank = 0; rank < options.size; ++rank)
        options.prefixes.push_back({"env", "TUTTI_PORT=" + std::to_string(free_port()),
                                    "TUTTI_ADVERTISE=127.0.0.1:" + std::to_string(told)});
    }
    workers = start_job(options);
    ASSERT_NO_FATAL_FAILURE(hear_all(workers, "waiting"));
  }
  void kill(std::size_t rank) { ASSERT_NO_FATAL_FAILURE(kill_now(workers[rank])); }
  void end_in_peace(std::size_t rank) {
    workers[rank].signal(SIGUSR2);
    expect_success(workers[rank]);
  }
  std::string told(const std::string& key) {
    return store_->get(prefix_ + key, std::chrono::seconds(10));
  }
  /// Tells a survivor to go on, and what its error begins with: code and culprit.
  void expect_blame(std::size_t rank, const std::string& begin, const std::string& part) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const long long told = now_ns();
    workers[rank].signal(SIGUSR1);
    const Said error = wait_for_error(workers[rank]);
    std::printf("told after %.1f ms: %s\n", static_cast<double>(error.at - told) / 1e6,
                error.text.c_str());
    EXPECT_THAT(error.text, testing::AllOf(testing::StartsWith(begin), testing::HasSubstr(part)));
  }
  std::vector<Worker> workers;
  std::shared_ptr<TcpStore> store_;
  std::string prefix_ = "tutti/1/";
};
INSTANTIATE_TEST_SUITE_P(Fault, Blame, ::testing::Values("tcp", "tls"), name_of_way);

constexpr const char* kNobodyListens = "nobody listens there any more";

TEST_P(Blame, TheStoreKnowsWhoWasLostFirst) {
  for (const auto& [served, part] :
       {std::pair(Store::of_test,
                  "its connection to the store ended unexpectedly, before any other's"),
        std::pair(Store::given, "lost rank 2 ")}) {
    ASSERT_NO_FATAL_FAILURE(start(served));
    ASSERT_NO_FATAL_FAILURE(kill(2));
    EXPECT_EQ(told("lost"), "2");
    ASSERT_NO_FATAL_FAILURE(kill(3));
    EXPECT_EQ(told("lost/3"), "3") << "lost later, too";
    for (const std::size_t rank : {1U, 0U}) expect_blame(rank, "peer_lost 2 ", part);
  }
}

/// ... without destroying anything.
TEST_P(Blame, WhoEndsInPeaceIsNotTakenForLost) {
  for (const Store served : {Store::of_test, Store::given}) {
    ASSERT_NO_FATAL_FAILURE(start(served));
    ASSERT_NO_FATAL_FAILURE(end_in_peace(1));
    ASSERT_NO_FATAL_FAILURE(kill(3));
    EXPECT_EQ(told("lost"), "3");
    EXPECT_FALSE(store_->check(prefix_ + "lost/1"));
    expect_blame(0, "peer_lost 3 ", kNobodyListens);
  }
}

TEST_P(Blame, TheEndOfTheStoreIsThatOfTheRankThatServesIt) {
  ASSERT_NO_FATAL_FAILURE(start(Store::of_rank_0));
  ASSERT_NO_FATAL_FAILURE(kill(0));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  for (const std::size_t rank : {1U, 2U})
    expect_blame(rank, "peer_lost 0 ", "the store that it serves is gone");
}

TEST_P(Blame, WhoWasLostFirstIsBlamedWhereItIsTheOneThatIsDialled) {
  ASSERT_NO_FATAL_FAILURE(start(Store::of_test));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  EXPECT_EQ(told("lost"), "3");
  ASSERT_NO_FATAL_FAILURE(kill(2));
  expect_blame(1, "peer_lost 3 ", kNobodyListens);
}

TEST_P(Blame, NobodyIsTakenForLostWhoEndedInPeace) {
  ASSERT_NO_FATAL_FAILURE(start(Store::of_test));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(3));
  expect_blame(0, "peer_left 3 ", "rank 3");
}

TEST_P(Blame, RankThatServedTheStoreAndEndedInPeaceIsNotTakenForLost) {
  ASSERT_NO_FATAL_FAILURE(start(Store::of_rank_0));
  ASSERT_NO_FATAL_FAILURE(end_in_peace(0));
  ASSERT_NO_FATAL_FAILURE(kill(3));
  for (const std::size_t rank : {1U, 2U}) expect_blame(rank, "peer_lost 3 ", kNobodyListens);
}

/// A firewall that refuses every port but the store's: nobody listens at the ports that the ranks
/// tell.
TEST_P(Blame, ThePortsThatRanksTellAreRefused) {
  ASSERT_NO_FATAL_FAILURE(start(Store::of_test, /*firewall=*/true));
  const std::string store = "127.0.0.1:" + std::to_string(store_->port());
  expect_blame(1, "peer_lost 3 ",
               ": connection refused; but the store at " + store +
                   " was reached, and for it that rank still runs: does a "
                   "firewall let only some ports through?");
  const auto error = workers[1].heard("error");
  expect_has(error->text, ": rank 1 (127.0.0.1:");
  expect_has(error->text, ") cannot connect to rank 3 (127.0.0.1:");
  // One that has ended in peace has done so, and is behind no firewall.
  ASSERT_NO_FATAL_FAILURE(end_in_peace(3));
  EXPECT_EQ(told("left/3"), "1");
  expect_blame(0, "peer_left 3 ", "rank 3");
}

TEST_P(Blame, StoreThatStandsStillIsNotWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(start(Store::of_rank_0));
  workers[0].signal(SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(kill(3));
  const test::Sleeper sleeper;
  const long long since = now_ns();
  expect_blame(1, "peer_lost 3 ", kNobodyListens);
  const auto error = workers[1].heard("error");
  ASSERT_TRUE(error);
  EXPECT_LT(static_cast<double>(error->at - since) / 1e6, sleeper.bound_ms(2000, since, error->at));
}

}  // namespace
}  // namespace tutti::fault
