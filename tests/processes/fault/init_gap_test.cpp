#include <gtest/gtest.h>

#include "network.hpp"

// Ranks and launchers wait for one that is late, and meanwhile the store cannot answer for a few
// seconds: its process is stopped, or a network is down. All is well when the late one comes.
namespace tutti::fault {
namespace {

using namespace std::chrono_literals;

constexpr auto kGap = 5s;

class InitGap : public NetworkTest {
 protected:
  /// A rank of four, each in a namespace of its own. Rank 0 serves the store.
  Worker rank(int i, const std::string& transport = "auto") {
    return {joined({network_.entering(i), {RANK_WORKER, "init", "env", "-", "-", "60", "1"}}),
            joined({way(transport),
                    {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "RANK=" + std::to_string(i),
                     "WORLD_SIZE=" + std::to_string(Network::kNamespaces),
                     "MASTER_ADDR=" + Network::address(0), "MASTER_PORT=29610"}})};
  }
  /// The launcher of node `i` of three, which has one worker.
  Worker node(int i, const std::string& port) {
    return {joined({network_.entering(i),
                    {TUTTIRUN, "--nnodes", "3", "--node-rank", std::to_string(i)},
                    {"--nproc-per-node", "1", "--master-addr", Network::address(0)},
                    {"--master-port", port, "--secret-file", SecretFile::get().path()},
                    {RANK_WORKER, "init", "env", "-", "-", "60", "1"}}),
            {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "OMP_NUM_THREADS=1"}};
  }
  /// The gap begins while the first ones wait. The late one comes in it, or after it.
  void expect_survived(std::vector<Worker> waiting, const std::function<void()>& begin,
                       const std::function<void()>& end, const std::function<Worker()>& late,
                       bool in_gap) {
    for (Worker& one : waiting) ASSERT_TRUE(one.hear("start"));
    std::this_thread::sleep_for(700ms);
    begin();
    if (in_gap) waiting.push_back(late());
    std::this_thread::sleep_for(kGap);
    end();
    if (!in_gap) waiting.push_back(late());
    expect_success(waiting);
  }
};

TEST_F(InitGap, OfTheProcessThatServesTheStoreOfRanks) {
  for (const bool in_gap : {false, true}) {
    std::vector<Worker> waiting;
    for (const int i : {0, 1, 2}) waiting.push_back(rank(i));
    const pid_t server = waiting.front().pid();
    expect_survived(
        std::move(waiting), [&] { ::kill(server, SIGSTOP); }, [&] { ::kill(server, SIGCONT); },
        [&] { return rank(3); }, in_gap);
  }
}

TEST_F(InitGap, OfTheNetworkOfARank) {
  for (const char* const transport : {"auto", "tls"}) {
    std::vector<Worker> waiting;
    for (const int i : {0, 1, 2}) waiting.push_back(rank(i, transport));
    expect_survived(
        std::move(waiting), [&] { ASSERT_TRUE(network_.cut(1) && network_.cut(3)); },
        [&] { ASSERT_TRUE(network_.join(1) && network_.join(3)); },
        [&] { return rank(3, transport); }, true);
  }
}

TEST_F(InitGap, OfTheLauncherThatServesTheStore) {
  for (const bool in_gap : {false, true}) {
    const std::string port = in_gap ? "29611" : "29613";
    std::vector<Worker> waiting;
    for (const int i : {0, 1}) waiting.push_back(node(i, port));
    const pid_t server = waiting.front().pid();
    expect_survived(
        std::move(waiting), [&] { ::kill(server, SIGSTOP); }, [&] { ::kill(server, SIGCONT); },
        [&] { return node(2, port); }, in_gap);
  }
}

TEST_F(InitGap, OfTheNetworkOfALauncher) {
  std::vector<Worker> waiting;
  for (const int i : {0, 1}) waiting.push_back(node(i, "29615"));
  expect_survived(
      std::move(waiting), [&] { ASSERT_TRUE(network_.cut(1) && network_.cut(2)); },
      [&] { ASSERT_TRUE(network_.join(1) && network_.join(2)); }, [&] { return node(2, "29615"); },
      true);
}

}  // namespace
}  // namespace tutti::fault
