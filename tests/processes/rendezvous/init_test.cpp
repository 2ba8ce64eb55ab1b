// Processes that find each other in any order of starting, and what each is told if they cannot.

#include "processes/fault/job.hpp"
#include "support/sleeper.hpp"

namespace tutti::fault {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

struct Rank {
  std::string url = "env";
  std::string rank = "-";
  std::string size = "-";
  std::string seconds = "15";
  std::string rounds = "1";
  Words environment = {};
};

Worker start(Rank rank) {
  rank.environment.emplace_back("PATH=/usr/bin:/bin");
  return {{RANK_WORKER, "init", rank.url, rank.rank, rank.size, rank.seconds, rank.rounds},
          rank.environment};
}

/// These ranks, begun in this order, which differ in nothing else.
std::vector<Worker> start_all(const Words& ranks, const Rank& like,
                              std::chrono::milliseconds apart = 0ms) {
  std::vector<Worker> workers;
  for (const std::string& rank : ranks) {
    if (!workers.empty()) std::this_thread::sleep_for(apart);
    Rank one = like;
    one.rank = rank;
    workers.push_back(start(one));
  }
  return workers;
}

std::string error_of(Worker& worker) {
  const auto status = worker.wait();
  if (!status) return "hangs";
  const auto error = worker.heard("error");
  return error ? error->text : "no error";
}

void expect_all(std::vector<Worker>& workers, const testing::Matcher<std::string>& error) {
  for (Worker& worker : workers) EXPECT_THAT(error_of(worker), error);
}

class InitByFile : public testing::Test {
 protected:
  [[nodiscard]] bool there() const { return ::access(path.c_str(), F_OK) == 0; }
  /// Waits until this rank has written who it is: from then on the others know its process.
  [[nodiscard]] bool claims(int rank) const {
    const std::string key = "rank/" + std::to_string(rank);
    for (const auto deadline = in(20); Clock::now() < deadline;) {
      if (test::text_of(path).find(key) != std::string::npos) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }
  const test::TemporaryFolder folder_;
  const std::string path = folder_.at("init").string();
  const std::string url = "file://" + path;
};

TEST_F(InitByFile, InAnyOrderASecondApart) {
  auto workers = start_all({"2", "0", "1"}, {.url = url, .size = "3", .rounds = "3"}, 1s);
  expect_success(workers);
  EXPECT_FALSE(there());
}

TEST_F(InitByFile, WhatAKilledRunLeftIsNoObstacle) {
  for (int round = 0; round < 3; ++round) {
    {
      auto workers = start_all({"0", "1"}, {.url = url, .size = "3"});
      ASSERT_NO_FATAL_FAILURE(hear_all(workers, "start"));
      // The first rounds while they begin, the last when they wait.
      std::this_thread::sleep_for(std::chrono::milliseconds(round * 50));
      for (Worker& worker : workers) ASSERT_NO_FATAL_FAILURE(kill_now(worker));
    }
    auto workers = start_all({"0", "1", "2"}, {.url = url, .size = "3"});
    expect_success(workers);
    EXPECT_FALSE(there());
  }
}

TEST_F(InitByFile, ARankThatIsKilledIsNamedToTheOthers) {
  auto workers = start_all({"0", "1", "2"}, {.url = url, .size = "4"});
  // Rank 3 never comes, so they wait.
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(claims(rank)) << rank;
  const test::Sleeper sleeper;
  const long long killed = now_ns();
  workers[1].signal(SIGKILL);
  for (const int rank : {0, 2}) {
    Worker& worker = workers[static_cast<std::size_t>(rank)];
    EXPECT_THAT(error_of(worker), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1 of 4"),
                                        HasSubstr("its process ended")));
    const auto error = worker.heard("error");
    ASSERT_TRUE(error);
    EXPECT_LT(static_cast<double>(error->at - killed) / 1e6,
              sleeper.bound_ms(2000, killed, error->at));
  }
  ASSERT_TRUE(workers[1].wait());
}

TEST_F(InitByFile, WhoIsMissingIsNamedWhenTheTimeIsOver) {
  auto workers = start_all({"0", "2"}, {.url = url, .size = "4", .seconds = "1.5"});
  expect_all(workers, AllOf(HasSubstr("timeout"), HasSubstr("ranks 1, 3 of 4 have not joined")));
}

std::string free_url() { return "tcp://127.0.0.1:" + std::to_string(free_port()); }

// Each of the ways.
Words urls(const std::string& file) {
  Words all = {file, free_url()};
  if (os::listen_tcp(os::Address::parse("::1", 0).value()).ok())
    all.push_back("tcp://[::1]:" + std::to_string(free_port()));
  return all;
}

TEST_F(InitByFile, OneRankGivenTwiceAndUnequalSizesAreToldToAll) {
  for (const bool twice : {true, false}) {
    for (const std::string& way : urls(url)) {
      SCOPED_TRACE(way);
      auto workers = start_all({"0", "1"}, {.url = way, .size = "3"});
      workers.push_back(start({.url = way, .rank = twice ? "1" : "2", .size = twice ? "3" : "4"}));
      if (twice) {
        expect_all(workers, AllOf(HasSubstr("disagreement"), HasSubstr("rank 1 of 3"),
                                  HasSubstr("two processes")));
      } else {
        expect_all(workers, AllOf(HasSubstr("disagreement"), HasSubstr("of 3"), HasSubstr("of 4"),
                                  HasSubstr("disagree on the number of processes")));
      }
      ::unlink(path.c_str());
    }
  }
}

TEST(InitByTcp, InAnyOrderASecondApartAndAgainOnTheSamePort) {
  const Words all = urls("");
  // Once with the one that serves last, once with it first.
  Words ranks = {"2", "1", "0"};
  for (std::size_t way = 1; way < all.size(); ++way) {
    auto workers = start_all(ranks, {.url = all[way], .size = "3", .rounds = "3"}, 1s);
    expect_success(workers);
    std::ranges::reverse(ranks);
  }
}

TEST(InitByTcp, RankAndSizeMayStandInTheUrl) {
  const std::string url = free_url();
  std::vector<Worker> workers;
  for (const char* const rank : {"0", "1"})
    workers.push_back(start({.url = url + "?world_size=2&rank=" + rank}));
  expect_success(workers);
}

TEST(InitByEnv, OnOneHostOtherLaunchersNeedNoMaster) {
  std::vector<Worker> workers;
  for (const char* const rank : {"1", "0", "2"}) {
    workers.push_back(
        start({.rounds = "2",
               .environment = {"PMI_RANK=" + std::string(rank), "PMI_SIZE=3", "MPI_LOCALNRANKS=3",
                               "MPI_LOCALRANKID=" + std::string(rank), "PMI_FD=999"}}));
  }
  expect_success(workers);
}

Words secret_and(const std::string& tls) {
  return {"TUTTI_SECRET_FILE=" + SecretFile::get().path(), "TUTTI_TLS=" + tls};
}

TEST(InitByTcp, EncryptionThatDiffersIsToldAtOnceToWhoIsRefused) {
  for (const bool served : {true, false}) {
    const std::string url = free_url();
    std::vector<Worker> workers;
    for (const char* const rank : {"0", "1"}) {
      const bool encrypts = served == (rank[0] == '0');
      workers.push_back(start({.url = url,
                               .rank = rank,
                               .size = "2",
                               .seconds = "3",
                               .environment = secret_and(encrypts ? "1" : "0")}));
    }
    EXPECT_THAT(error_of(workers[1]),
                AllOf(HasSubstr("refused"), HasSubstr("give all processes"),
                      HasSubstr(served ? "it encrypts its connections and this process does not"
                                       : "it does not encrypt its connections, but this process")));
    EXPECT_THAT(error_of(workers[0]), HasSubstr("rank 1 of 2 has not joined"));
  }
}

TEST_F(InitByFile, EncryptionThatDiffersIsToldToAll) {
  std::vector<Worker> workers;
  for (const char* const rank : {"0", "1", "2"}) {
    workers.push_back(start({.url = url,
                             .rank = rank,
                             .size = "3",
                             .environment = secret_and(rank[0] == '1' ? "1" : "0")}));
  }
  expect_all(workers, AllOf(HasSubstr("disagreement"), HasSubstr("TUTTI_TLS")));
}

TEST(InitByTcp, EncryptionNeedsASecret) {
  const std::string url = free_url();
  auto workers = start_all(
      {"0", "1"}, {.url = url, .size = "2", .environment = {"TUTTI_TLS=1", "TUTTI_INSECURE=1"}});
  expect_all(workers, AllOf(HasSubstr("invalid_argument"), HasSubstr("no secret"),
                            HasSubstr("TUTTI_SECRET_FILE")));
}

TEST_F(InitByFile, EncryptedInAnyOrder) {
  auto workers =
      start_all({"2", "0", "1"},
                {.url = url, .size = "3", .environment = {"TUTTI_TLS=1", "TUTTI_TRANSPORT=tcp"}});
  expect_success(workers);
}

TEST(InitByEnv, AnInterfaceThatIsNotThereIsToldToAll) {
  const std::string port = std::to_string(free_port());
  std::vector<Worker> workers;
  for (const char* const rank : {"0", "1"}) {
    Rank one{.environment = {"RANK=" + std::string(rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                             "MASTER_PORT=" + port}};
    if (rank[0] == '1') one.environment.emplace_back("TUTTI_SOCKET_IFNAME=none0");
    workers.push_back(start(one));
  }
  EXPECT_THAT(error_of(workers[1]), AllOf(HasSubstr("invalid_argument"), HasSubstr("none0")));
  EXPECT_THAT(error_of(workers[0]),
              AllOf(HasSubstr("peer_left"), HasSubstr("rank 1 of 2"), HasSubstr("none0")));
}

}  // namespace
}  // namespace tutti::fault
