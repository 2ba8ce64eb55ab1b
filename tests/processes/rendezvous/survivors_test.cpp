// Some processes are killed; those that are left number themselves anew and meet again in each way.

#include "processes/fault/job.hpp"

namespace tutti::fault {
namespace {

using namespace std::chrono_literals;

constexpr int kSize = 4;

struct Case {
  std::string name;
  std::string way;  ///< of survivor_worker; PATH and PORT stand for a file and a port of the test
  /// A store that lives as long as the test, at PORT.
  bool served = false;
  std::vector<int> victims;
  std::string transport = "auto";
};

class Survivors : public testing::TestWithParam<Case> {
 protected:
  static void put(std::string& text, const std::string& name, const std::string& value) {
    if (const std::size_t at = text.find(name); at != std::string::npos)
      text.replace(at, name.size(), value);
  }
  const test::TemporaryFolder folder_;
};

TEST_P(Survivors, MeetAgainWithNewRanks) {
  std::shared_ptr<TcpStore> store;
  if (GetParam().served) store = make_tcp_store({.serve = true, .timeout = 15s});
  const std::string port = std::to_string(store ? store->port() : free_port());
  std::string way = GetParam().way;
  put(way, "PATH", folder_.at("store").string());
  put(way, "PORT", port);
  const std::vector<int>& victims = GetParam().victims;

  std::vector<Worker> workers;
  for (int rank = 0; rank < kSize; ++rank) {
    Words argv = {RANK_WORKER, "survive", way, std::to_string(rank), std::to_string(kSize)};
    for (const int victim : victims) argv.push_back(std::to_string(victim));
    Words environment = {"PATH=/usr/bin:/bin", "TUTTI_TRANSPORT=" + GetParam().transport};
    if (way == "env") {
      environment =
          joined({environment,
                  {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "TUTTI_AGENT_STORE=1"},
                  {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(kSize)}});
    }
    workers.emplace_back(std::move(argv), std::move(environment));
  }
  for (int rank = 0; rank < kSize; ++rank) {
    Worker& worker = workers[static_cast<std::size_t>(rank)];
    const auto status = worker.wait(90);
    ASSERT_TRUE(status) << "rank " << rank << " hangs";
    const auto error = worker.heard("error");
    const bool is_victim = std::ranges::count(victims, rank) > 0;
    EXPECT_EQ(status->shell_code(), is_victim ? 128 + SIGKILL : 0)
        << "rank " << rank << ": " << (error ? error->text : "no error");
    if (is_victim) continue;
    const auto met = worker.heard("met");
    ASSERT_TRUE(met);
    const auto before = std::ranges::count_if(victims, [&](int victim) { return victim < rank; });
    EXPECT_EQ(met->text,
              std::to_string(rank - before) + " of " + std::to_string(kSize - std::ssize(victims)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Survivors,
    testing::Values(Case{"LaunchersStore", "env", true, {1}},
                    Case{"LaunchersStoreTwice", "env", true, {3, 0}},
                    Case{"GivenTcpStore", "tcp:PORT", true, {1}},
                    Case{"GivenTcpStoreTwice", "tcp:PORT", true, {0, 2}},
                    Case{"GivenTcpStoreOverTcp", "tcp:PORT", true, {1, 3}, "tcp"},
                    Case{"GivenFileStore", "file:PATH", false, {1}},
                    Case{"GivenFileStoreTwice", "file:PATH", false, {0, 1}},
                    Case{"FileUrl", "file://PATH", false, {1}},
                    Case{"FileUrlTwice", "file://PATH", false, {2, 0}},
                    Case{"FileUrlOverTcp", "file://PATH", false, {0, 2}, "tcp"},
                    Case{"TcpUrl", "tcp://127.0.0.1:PORT", false, {1}},
                    Case{"TcpUrlWhoServedIsLost", "tcp://127.0.0.1:PORT", false, {0, 1}}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tutti::fault
