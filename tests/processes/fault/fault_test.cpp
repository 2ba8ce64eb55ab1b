#include <random>
#include <set>

#include "job.hpp"
#include "sockets.hpp"
#include "support/rotation.hpp"
#include "support/sleeper.hpp"

// A rank stops, calls something else, leaves or comes late; and foreign connections.
namespace tutti::fault {
namespace {

constexpr const char* kTransports[] = {"auto", "ring", "tcp", "tls"};

class Transports : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static JobOptions job(int size, const Words& arguments,
                                      const std::string& timeout = "10") {
    return job_of(GetParam(), arguments, timeout, size);
  }
};
INSTANTIATE_TEST_SUITE_P(Fault, Transports, ::testing::ValuesIn(kTransports), name_of_way);

void expect_error(Worker& worker, const std::string& code, const std::vector<std::string>& parts) {
  const Said error = wait_for_error(worker);
  EXPECT_EQ(ToldError(error.text).code, code) << error.text;
  for (const std::string& part : parts) expect_has(error.text, part);
}

/// A job that does nothing but wait costs nothing: those of all transports wait side by side.
struct Waiting {
  const char* transport;
  std::vector<Worker> workers;
  long long since = 0;
};

TEST(AllTransports, StoppedRankIsNamedAtTheDeadline) {
  const test::Sleeper sleeper;
  std::vector<Waiting> jobs;
  for (const char* const transport : kTransports) {
    SCOPED_TRACE(transport);
    // Together: who has timed out in a group of its own with the stopped rank ends over that, and
    // those who wait for it in the world are told that it has left.
    jobs.push_back(
        {transport, start_job(job_of(transport, {"churn_together", "7", "1000000"}, "1.5"))});
    Waiting& job = jobs.back();
    ASSERT_NO_FATAL_FAILURE(hear_all(job.workers, "ready"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    job.since = now_ns();
    job.workers[2].signal(SIGSTOP);
  }
  for (Waiting& job : jobs) {
    SCOPED_TRACE(job.transport);
    Told told;
    for (const std::size_t rank : {0U, 1U, 3U}) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      expect_error(job.workers[rank], "timeout", {"rank 2"});
      ASSERT_NO_FATAL_FAILURE(told.add(job.workers[rank]));
    }
    told.expect_not_before(1.5);
    const double last = static_cast<double>(told.last_error - job.since) / 1e6;
    std::printf("%s: named after %.0f ms\n", job.transport, last);
    EXPECT_LE(last, sleeper.bound_ms(4000, job.since, told.last_error));
  }
}

void kill_in_a_monitored_barrier(const JobOptions& options, std::size_t killed) {
  SCOPED_TRACE("rank " + std::to_string(killed) + " is killed");
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "here"));
  workers[killed].signal(SIGKILL);
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    if (rank == killed) continue;
    expect_error(workers[rank], "peer_lost",
                 {rank == 0 ? "[Rank 0]: Ranks 2 failed to pass monitoredBarrier in 60000 ms: "
                            : "Rank " + std::to_string(rank) +
                                  " successfully reached monitoredBarrier, but received errors",
                  "lost rank " + std::to_string(killed)});
  }
}

TEST_P(Transports, KilledRankEndsAMonitoredBarrierAtOnce) {
  for (const std::size_t killed : {0U, 2U})  // who waits for the others, and one of those
    kill_in_a_monitored_barrier(job(4, {"monitored", std::to_string(killed)}, "60"), killed);
}

TEST_P(Transports, AKillIsSeenWhereTheKernelRefusesPidfds) {
  JobOptions options = job(4, {"monitored", "2"}, "60");
  options.environment.push_back("FAULT_NO_PIDFDS=1");
  kill_in_a_monitored_barrier(options, 2);
}

TEST_P(Transports, DisagreementNamesBothRanksToAllAndLeavesOutputsAlone) {
  std::uint64_t number = 0;
  for (const char* const count : {"4", "100000"}) {
    for (const char* const what : {"kind", "dtype", "count", "op", "root", "order"}) {
      // Two of the twelve over each transport, one of each count.
      if (!test::has_its_turn(number++ + std::string(GetParam()).front(), 6)) continue;
      SCOPED_TRACE(std::string(what) + ", " + count + " elements");
      auto workers = start_job(job(3, {"disagree", what, count}));
      for (Worker& worker : workers) {
        expect_error(worker, "disagreement", {"rank 1"});
        const auto unchanged = worker.heard("unchanged");
        // Rank 2 names the same root as rank 0, which may have served it before it hears of rank 1.
        if (unchanged && (std::string(what) != "root" || &worker != &workers[2])) {
          EXPECT_EQ(unchanged->text, "1");
        }
        const auto error = worker.heard("error");
        ASSERT_TRUE(error);
        EXPECT_THAT(error->text, ::testing::ContainsRegex("rank [02]"));
      }
    }
  }
}

TEST_P(Transports, RankThatEndsEarlyInPeaceDisturbsNobodyWhoNeedsItNoMore) {
  auto workers = start_job(job(3, {"peace", "enough"}));
  ASSERT_NO_FATAL_FAILURE(expect_success(workers));
}

TEST_P(Transports, RankThatHasLeftIsNamedToWhoStillNeedsIt) {
  auto workers = start_job(job(3, {"peace", "needed"}));
  expect_success(workers[1]);
  expect_error(workers[0], "peer_left", {"rank 1"});
  expect_error(workers[2], "peer_left", {"rank 1"});
}

TEST_P(Transports, ProcessMayEndWhileAThreadEndsWorlds) {
  auto workers = start_job(job(2, {"exit_while_ending"}, "60"));
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "here"));
  workers[1].signal(SIGSTOP);
  workers[0].signal(SIGUSR1);
  expect_success(workers[0]);
}

TEST_P(Transports, SecondWorldOfAProcessWorksAndHoldsNoMore) {
  auto workers = start_job(job(3, {"again"}));
  for (Worker& worker : workers) {
    expect_success(worker);
    const auto holdings = holdings_of(worker);
    ASSERT_TRUE(holdings);
    EXPECT_LE(holdings->after.descriptors, holdings->most_descriptors());
  }
}

TEST(AllTransports, WaitingForALateRankCostsNoCpu) {
  const std::string seconds = std::to_string(number_or("FAULT_IDLE_SECONDS", 3));
  const test::Sleeper sleeper;
  const long long since = now_ns();
  std::vector<Waiting> jobs;
  for (const char* const transport : kTransports)
    jobs.push_back({transport, start_job(job_of(transport, {"idle", seconds}, "30"))});
  for (Waiting& job : jobs) ASSERT_NO_FATAL_FAILURE(expect_success(job.workers));
  // A rank that spins uses all of a core, and one that polls each millisecond more than a
  // twentieth. To wake a thread costs more on a machine that wakes a sleeper late.
  const bool in_time = sleeper.worst_ms(since, now_ns()) < 5;
  for (Waiting& job : jobs) {
    SCOPED_TRACE(job.transport);
    for (const std::size_t rank : {0U, 2U, 3U}) {
      const auto idle = job.workers[rank].heard("idle");
      ASSERT_TRUE(idle);
      double cpu = 0;
      double wall = 0;
      std::istringstream(idle->text) >> cpu >> wall;
      std::printf("%s: rank %zu waited %.2f s and used %.3f %% of a core\n", job.transport, rank,
                  wall / 1e9, 100 * cpu / wall);
      EXPECT_GT(wall, 1e9);
      EXPECT_LT(cpu, (in_time ? 0.01 : 0.05) * wall);
    }
  }
}

TEST_P(Transports, GarbageOnEveryPortDisturbsNobody) {
  auto workers = start_job(job(3, {"churn_until_told", "11"}));
  std::set<int> ports;
  for (Worker& worker : workers) {
    ASSERT_TRUE(worker.hear("ready"));
    for (const Socket& one : tcp_sockets_of(std::to_string(worker.pid())))
      if (one.listens()) ports.insert(one.port());
  }
  EXPECT_GE(ports.size(),
            std::string(GetParam()).starts_with("t") ? 4U : 1U);  // the store's, and each rank's
  std::mt19937 random(5);
  std::vector<os::Fd> open;
  int sent = 0;
  for (int round = 0; round < 10; ++round) {
    for (const int port : ports) {
      auto address = os::Address::parse("127.0.0.1", static_cast<std::uint16_t>(port));
      auto connection = os::connect_tcp(*address, in(1));
      if (!connection) continue;
      std::vector<std::byte> garbage(1 + random() % 5000);
      for (std::byte& one : garbage) one = static_cast<std::byte>(random());
      (void)os::send_some(connection->get(), garbage);
      ++sent;
      if (round % 2 == 0) open.push_back(std::move(*connection));  // stays silent from now on
    }
  }
  EXPECT_GT(sent, 0);
  workers[0].signal(SIGUSR1);
  ASSERT_NO_FATAL_FAILURE(expect_success(workers));
}

}  // namespace
}  // namespace tutti::fault
