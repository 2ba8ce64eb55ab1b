// Real processes that find each other, in any order of starting, and what each is told if they
// cannot.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

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
  std::vector<std::string> environment = {};
};

Worker start(Rank rank) {
  rank.environment.emplace_back("PATH=/usr/bin:/bin");
  return {{INIT_WORKER, rank.url, rank.rank, rank.size, rank.seconds, rank.rounds},
          rank.environment};
}

void expect_done(std::vector<Worker>& workers) {
  for (Worker& worker : workers) {
    const auto status = worker.wait(in(60));
    ASSERT_TRUE(status) << "hangs";
    const auto error = worker.hear("error", in(0));
    EXPECT_EQ(status->shell_code(), 0) << (error ? error->text : "no error");
  }
}

std::string error_of(Worker& worker) {
  const auto status = worker.wait(in(60));
  if (!status) return "hangs";
  const auto error = worker.hear("error", in(0));
  return error ? error->text : "no error";
}

class InitByFile : public testing::Test {
 protected:
  InitByFile() { ::unlink(path.c_str()); }
  ~InitByFile() override { ::unlink(path.c_str()); }
  [[nodiscard]] bool there() const { return ::access(path.c_str(), F_OK) == 0; }
  /// Waits until this rank has written who it is: from then on the others know its process.
  [[nodiscard]] bool claims(int rank) const {
    const std::string key = "rank/" + std::to_string(rank);
    for (const auto deadline = in(20); Clock::now() < deadline;) {
      std::ifstream file(path, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
      if (text.find(key) != std::string::npos) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }
  const std::string path = testing::TempDir() + "tutti_init_" + std::to_string(::getpid());
  const std::string url = "file://" + path;
};

TEST_F(InitByFile, InAnyOrderASecondApart) {
  std::vector<Worker> workers;
  for (const char* const rank : {"2", "0", "1"}) {
    if (!workers.empty()) std::this_thread::sleep_for(1s);
    workers.push_back(start({.url = url, .rank = rank, .size = "3", .rounds = "3"}));
  }
  expect_done(workers);
  EXPECT_FALSE(there());
}

TEST_F(InitByFile, WhatAKilledRunLeftIsNoObstacle) {
  for (int round = 0; round < 3; ++round) {
    {
      std::vector<Worker> workers;
      workers.push_back(start({.url = url, .rank = "0", .size = "3"}));
      workers.push_back(start({.url = url, .rank = "1", .size = "3"}));
      for (Worker& worker : workers) ASSERT_TRUE(worker.hear("start", in(60)));
      // The first rounds while they begin, the last when they wait.
      std::this_thread::sleep_for(std::chrono::milliseconds(round * 50));
      for (Worker& worker : workers) {
        worker.signal(SIGKILL);
        ASSERT_TRUE(worker.wait(in(60)));
      }
    }
    std::vector<Worker> workers;
    for (const char* const rank : {"0", "1", "2"})
      workers.push_back(start({.url = url, .rank = rank, .size = "3"}));
    expect_done(workers);
    EXPECT_FALSE(there());
  }
}

TEST_F(InitByFile, ARankThatIsKilledIsNamedToTheOthers) {
  std::vector<Worker> workers;
  for (const char* const rank : {"0", "1", "2"})
    workers.push_back(start({.url = url, .rank = rank, .size = "4"}));
  // Rank 3 never comes, so they wait.
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(claims(rank)) << rank;
  const test::Sleeper sleeper;
  const long long killed = now_ns();
  workers[1].signal(SIGKILL);
  for (const int rank : {0, 2}) {
    Worker& worker = workers[static_cast<std::size_t>(rank)];
    EXPECT_THAT(error_of(worker), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1 of 4"),
                                        HasSubstr("its process ended")));
    const auto error = worker.hear("error", in(0));
    ASSERT_TRUE(error);
    EXPECT_LT(static_cast<double>(error->at - killed) / 1e6,
              sleeper.bound_ms(2000, killed, error->at));
  }
  ASSERT_TRUE(workers[1].wait(in(60)));
}

TEST_F(InitByFile, WhoIsMissingIsNamedWhenTheTimeIsOver) {
  std::vector<Worker> workers;
  for (const char* const rank : {"0", "2"})
    workers.push_back(start({.url = url, .rank = rank, .size = "4", .seconds = "1.5"}));
  for (Worker& worker : workers) {
    EXPECT_THAT(error_of(worker),
                AllOf(HasSubstr("timeout"), HasSubstr("ranks 1, 3 of 4 have not joined")));
  }
}

// Each of the ways.
std::vector<std::string> urls(const std::string& file) {
  return {file, "tcp://127.0.0.1:" + std::to_string(free_port()),
          "tcp://[::1]:" + std::to_string(free_port())};
}

bool has_ipv6() { return os::listen_tcp(os::Address::parse("::1", 0).value()).ok(); }

TEST_F(InitByFile, OneRankGivenTwiceIsToldToAll) {
  for (const std::string& way : urls(url)) {
    if (way.find('[') != std::string::npos && !has_ipv6()) continue;
    std::vector<Worker> workers;
    for (const char* const rank : {"0", "1", "1"})
      workers.push_back(start({.url = way, .rank = rank, .size = "3"}));
    for (Worker& worker : workers) {
      EXPECT_THAT(error_of(worker), AllOf(HasSubstr("disagreement"), HasSubstr("rank 1 of 3"),
                                          HasSubstr("two processes")))
          << way;
    }
    ::unlink(path.c_str());
  }
}

TEST_F(InitByFile, UnequalSizesAreToldToAll) {
  for (const std::string& way : urls(url)) {
    if (way.find('[') != std::string::npos && !has_ipv6()) continue;
    std::vector<Worker> workers;
    workers.push_back(start({.url = way, .rank = "0", .size = "3"}));
    workers.push_back(start({.url = way, .rank = "1", .size = "3"}));
    workers.push_back(start({.url = way, .rank = "2", .size = "4"}));
    for (Worker& worker : workers) {
      EXPECT_THAT(error_of(worker),
                  AllOf(HasSubstr("disagreement"), HasSubstr("disagree on the number of processes"),
                        HasSubstr("of 3"), HasSubstr("of 4")))
          << way;
    }
    ::unlink(path.c_str());
  }
}

TEST(InitByTcp, InAnyOrderASecondApartAndAgainOnTheSamePort) {
  for (const char* const host : {"127.0.0.1", "[::1]"}) {
    if (host[0] == '[' && !has_ipv6()) continue;
    const std::string url = "tcp://" + std::string(host) + ":" + std::to_string(free_port());
    std::vector<Worker> workers;
    // Once with the one that serves last, once with it first.
    for (const char* const rank : {host[0] == '[' ? "0" : "2", "1", host[0] == '[' ? "2" : "0"}) {
      if (!workers.empty()) std::this_thread::sleep_for(1s);
      workers.push_back(start({.url = url, .rank = rank, .size = "3", .rounds = "3"}));
    }
    expect_done(workers);
  }
}

TEST(InitByTcp, RankAndSizeMayStandInTheUrl) {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::vector<Worker> workers;
  for (const char* const rank : {"0", "1"})
    workers.push_back(start({.url = url + "?world_size=2&rank=" + rank}));
  expect_done(workers);
}

TEST(InitByEnv, OnOneHostOtherLaunchersNeedNoMaster) {
  std::vector<Worker> workers;
  for (const char* const rank : {"1", "0", "2"}) {
    workers.push_back(
        start({.rounds = "2",
               .environment = {"OMPI_COMM_WORLD_RANK=" + std::string(rank),
                               "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_SIZE=3",
                               "OMPI_COMM_WORLD_LOCAL_RANK=" + std::string(rank)}}));
  }
  expect_done(workers);
}

std::vector<std::string> secret_and(const std::string& tls) {
  return {"TUTTI_SECRET_FILE=" + SecretFile::get().path(), "TUTTI_TLS=" + tls};
}

TEST(InitByTcp, EncryptionThatDiffersIsToldAtOnceToWhoIsRefused) {
  for (const bool served : {true, false}) {
    const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
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
  for (Worker& worker : workers) {
    EXPECT_THAT(error_of(worker), AllOf(HasSubstr("disagreement"), HasSubstr("TUTTI_TLS")));
  }
}

TEST(InitByTcp, EncryptionNeedsASecret) {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::vector<Worker> workers;
  for (const char* const rank : {"0", "1"}) {
    workers.push_back(start({.url = url,
                             .rank = rank,
                             .size = "2",
                             .environment = {"TUTTI_TLS=1", "TUTTI_INSECURE=1"}}));
  }
  for (Worker& worker : workers) {
    EXPECT_THAT(error_of(worker), AllOf(HasSubstr("invalid_argument"), HasSubstr("no secret"),
                                        HasSubstr("TUTTI_SECRET_FILE")));
  }
}

TEST_F(InitByFile, EncryptedInAnyOrder) {
  std::vector<Worker> workers;
  for (const char* const rank : {"2", "0", "1"}) {
    workers.push_back(start({.url = url,
                             .rank = rank,
                             .size = "3",
                             .environment = {"TUTTI_TLS=1", "TUTTI_TRANSPORT=tcp"}}));
  }
  expect_done(workers);
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
