#include <map>

#include "network.hpp"

// A job on several hosts as people start one: one tuttirun in each network namespace, with nothing
// but its own options. Between the hosts all goes by TCP, inside each nothing does.
namespace tutti::fault {
namespace {

constexpr int kPerHost = 2;

std::string secret_option() { return "--secret-file=" + SecretFile::get().path(); }

/// Who is connected with how many, by rank, as the workers say.
struct Links {
  int inside = -1;   ///< ... ranks of its own host
  int outside = -1;  ///< ... ranks of other hosts
};

class Hosts : public NetworkTest {
 protected:
  /// tuttirun on host `i`: its options, then the program.
  void start(int i, const Words& options, const Words& program, const Words& environment = {}) {
    launchers_.emplace_back(
        joined({network_.entering(i), {TUTTIRUN}, options, program}),
        joined({{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "OMP_NUM_THREADS=1", "TUTTI_TIMEOUT=20"},
                environment}));
  }
  static Words links() { return {RANK_WORKER, "links"}; }
  /// The options of a host that has been given its number.
  static Words numbered(int hosts, int i, const Words& more = {}) {
    return joined({{"--nnodes", std::to_string(hosts), "--node-rank", std::to_string(i)},
                   {"--nproc-per-node", std::to_string(kPerHost)},
                   {"--master-addr", Network::address(0)},
                   more});
  }
  /// All launchers end so.
  void expect_ends(int code) {
    for (Worker& launcher : launchers_) {
      const auto status = launcher.wait();
      ASSERT_TRUE(status) << "hangs";
      const auto error = launcher.heard("error");
      EXPECT_EQ(status->shell_code(), code) << (error ? error->text : "");
    }
  }
  /// Everybody is connected with all ranks of other hosts, and with none of its own.
  void expect_links(int hosts) {
    std::map<int, Links> links;
    for (const Worker& launcher : launchers_) {
      for (const Said& said : launcher.said()) {
        if (said.word != "links") continue;
        std::istringstream numbers(said.text);
        int rank = -1;
        Links one;
        numbers >> rank >> one.inside >> one.outside;
        EXPECT_TRUE(links.emplace(rank, one).second) << "rank " << rank << " twice";
      }
    }
    EXPECT_EQ(links.size(), static_cast<std::size_t>(hosts * kPerHost));
    for (const auto& [rank, one] : links) {
      EXPECT_EQ(one.inside, 0) << "rank " << rank << " talks by TCP on its own host";
      EXPECT_EQ(one.outside, (hosts - 1) * kPerHost) << "rank " << rank;
    }
  }
  void run_numbered(int hosts, const Words& more) {
    for (int i = 0; i < hosts; ++i) start(i, numbered(hosts, i, more), links());
    expect_ends(0);
    expect_links(hosts);
  }

  std::vector<Worker> launchers_;
};

TEST_F(Hosts, ByNumberAndTheUsualPort) { run_numbered(2, {secret_option()}); }

TEST_F(Hosts, FourByNumberAndAGivenPort) {
  run_numbered(4, {secret_option(), "--master-port", "29517"});
}

TEST_F(Hosts, Encrypted) { run_numbered(2, {secret_option(), "--tls"}); }

/// It works, and says to whom the port is open.
TEST_F(Hosts, WithoutASecret) { run_numbered(2, {}); }

TEST_F(Hosts, SpelledWithUnderscoresInAnyOrderOfStarting) {
  for (const int i : {2, 0, 1}) {
    start(i,
          {"--nnodes=3", "--node_rank=" + std::to_string(i), "--nproc_per_node=2",
           "--master_addr=" + Network::address(0), "--master_port=29518",
           "--secret_file=" + SecretFile::get().path(), "--no_python"},
          links());
  }
  expect_ends(0);
  expect_links(3);
}

/// As a cluster's controller sets it: the name of the first host means the loopback there.
TEST_F(Hosts, ByANameOfTheFirstAndAnAddressThatIsTold) {
  const std::string told = Network::address(1);
  const Words churn = {"bash", "-c",
                       "[ $GROUP_RANK$TUTTI_ADVERTISE = 0 ] || [ $TUTTI_ADVERTISE = " + told +
                           " ] && exec \"$0\" churn 11 60",
                       RANK_WORKER};
  Words first = numbered(2, 0, {secret_option()});
  *std::ranges::find(first, Network::address(0)) = "localhost";
  start(0, first, churn);
  start(1, numbered(2, 1, {secret_option(), "--local-addr", told}), churn);
  expect_ends(0);
}

/// Every host has the same options; that with the address of the endpoint serves.
TEST_F(Hosts, NumberedByTheStore) {
  for (const int i : {1, 2, 0}) {
    start(i,
          {"--nnodes", "3", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
           Network::address(0) + ":29519", "--rdzv-id", "job-9", secret_option()},
          links());
  }
  expect_ends(0);
  expect_links(3);
}

TEST_F(Hosts, AFailureOnOneEndsAllWithItsCode) {
  // Rank 3 is on the second host. The others wait for it in an operation, and are ended.
  const std::string script = "if [ $RANK = 3 ]; then exit 9; fi; exec \"$0\" churn 7 100000000";
  for (int i = 0; i < 3; ++i)
    start(i, numbered(3, i, {secret_option()}), {"bash", "-c", script, RANK_WORKER});
  expect_ends(9);
}

// Between hosts with firewalls that let through what docs/reference/launcher.md names, and drop the
// rest.
TEST_F(Hosts, AreAllStartedAgainAtPortsThatFirewallsKnow) {
  ASSERT_TRUE(network_.admit(0, {"29500-29502", "29600-29601"}));
  ASSERT_TRUE(network_.admit(1, {"29600-29601"}));
  // Rank 2 fails twice when all have met; then all meet again.
  const std::string script =
      "\"$0\" links || exit 8; [ $RANK != 2 ] || exit $((2 - TORCHELASTIC_RESTART_COUNT)); "
      "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exec sleep 1000";
  for (int i = 0; i < 2; ++i) {
    start(i, numbered(2, i, {secret_option(), "--max-restarts", "2"}),
          {"bash", "-c", script, RANK_WORKER}, {"TUTTI_PORT=29600"});
  }
  expect_ends(0);
  int met = 0;
  for (const Worker& launcher : launchers_)
    for (const Said& said : launcher.said()) met += said.word == "links" ? 1 : 0;
  EXPECT_EQ(met, 3 * 2 * kPerHost);
}

TEST_F(Hosts, AnotherSecretIsTurnedAway) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("secret", std::string(32, 'x'));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const Words endless = {RANK_WORKER, "churn", "7", "100000000"};
  start(0, numbered(2, 0, {secret_option()}), endless);
  ASSERT_TRUE(launchers_[0].hear("init"));  // it serves
  start(1, numbered(2, 1, {"--secret-file=" + path}), endless);
  const auto status = launchers_[1].wait();
  ASSERT_TRUE(status) << "hangs";
  EXPECT_EQ(status->shell_code(), 1);
  EXPECT_FALSE(launchers_[1].heard("init")) << "no worker was started";
  launchers_[0].signal(SIGTERM);  // it would wait for the other until its time is over
  ASSERT_TRUE(launchers_[0].wait());
}

}  // namespace
}  // namespace tutti::fault
