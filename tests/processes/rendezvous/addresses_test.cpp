#include "processes/fault/network.hpp"

// Ranks that know their host by different addresses, in network namespaces that the test makes.
namespace tutti::fault {
namespace {

class Addresses : public NetworkTest {
 protected:
  /// A rank in namespace `i` that finds the others by this URL.
  void start(int i, int rank, int size, const std::string& url, const Words& variables = {},
             const Words& before = {}) {
    const Words init = {RANK_WORKER,          "init", url, std::to_string(rank),
                        std::to_string(size), "15",   "2"};
    workers_.emplace_back(joined({network_.entering(i), before, init}),
                          joined({{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
                                  {"TUTTI_SECRET_FILE=" + SecretFile::get().path()},
                                  variables}));
  }
  /// What makes a program see this file as /etc/hosts.
  Words with_hosts(const std::string& text) {
    const std::string file = files_.file("hosts" + std::to_string(text.size()), text);
    return {"unshare", "-m", "sh", "-c",
            "mount --bind " + file + " /etc/hosts && exec \"$0\" \"$@\""};
  }
  void expect_errors(const Words& parts) {
    for (Worker& worker : workers_) {
      const std::string error = wait_for_error(worker).text;
      for (const std::string& part : parts) expect_has(error, part);
    }
  }

  std::vector<Worker> workers_;
  test::TemporaryFolder files_;
};

/// As job controllers set it, and as a distribution's /etc/hosts has a host's own name.
TEST_F(Addresses, ANameThatIsTheLoopbackOnTheMasterOnly) {
  const std::string url = "tcp://master:29617";
  const auto master = with_hosts("127.0.1.1 master\n");
  const auto others = with_hosts(Network::address(0) + " master\n");
  start(2, 3, 4, url, {}, others);
  start(1, 2, 4, url, {}, others);
  start(0, 1, 4, url, {}, master);
  start(0, 0, 4, url, {}, master);
  expect_success(workers_);
}

TEST_F(Addresses, LocalhostOnTheMasterAndByTcpToRanksOfItsHost) {
  for (int rank = 0; rank < 3; ++rank) {
    const std::string host = rank < 2 ? "localhost" : Network::address(0);
    start(rank / 2, rank, 3, "tcp://" + host + ":29618", {"TUTTI_TRANSPORT=tcp"});
  }
  expect_success(workers_);
}

TEST_F(Addresses, OnlyOfTheLoopbackAreToldToEveryRank) {
  // In a folder of ours alone: within a user namespace /tmp belongs to nobody that is known.
  const test::TemporaryFolder folder;
  const std::string path = folder.at("rendezvous").string();
  for (int rank = 0; rank < 3; ++rank)
    start(rank, rank, 3, "file://" + path, {"TUTTI_SOCKET_IFNAME=lo"});
  expect_errors({"refused", "the ranks are on several hosts, and rank 0 (",
                 "cannot be reached from that of rank 1 (", "TUTTI_SOCKET_IFNAME"});
}

/// Two ranks that are known by ports of a third host only, each with the number of its rank there
/// added, and that are behind it with other ports.
TEST_F(Addresses, PublishedPortsAreDialledInPlaceOfTheRanksOwn) {
  std::vector<Worker> forwarders;
  for (const int local_rank : {0, 1}) {
    forwarders.emplace_back(
        joined({network_.entering(2),
                {RANK_WORKER, "forward", std::to_string(9000 + local_rank)},
                {Network::address(1) + ":" + std::to_string(7000 + local_rank)}}),
        Words{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
    ASSERT_TRUE(forwarders.back().hear("listens"));
  }
  const std::string url = "tcp://" + Network::address(0) + ":29619";
  start(0, 0, 3, url, {"TUTTI_TRANSPORT=tcp"});
  for (const int local_rank : {0, 1}) {
    start(1, 1 + local_rank, 3, url,
          {"TUTTI_TRANSPORT=tcp", "LOCAL_RANK=" + std::to_string(local_rank), "TUTTI_PORT=7000",
           "TUTTI_ADVERTISE=" + Network::address(2) + ":9000"});
  }
  expect_success(workers_);
  // Only the last rank is sure to be dialled: the others send to it first.
  EXPECT_TRUE(forwarders[1].hear("taken"));
}

TEST_F(Addresses, AStoreIsReachedByAPublishedPortOfAnotherHostAndNumber) {
  Worker forwarder(joined({network_.entering(2),
                           {RANK_WORKER, "forward", "29630"},
                           {Network::address(0) + ":29631"}}),
                   Words{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
  ASSERT_TRUE(forwarder.hear("listens"));
  start(0, 0, 2, "tcp://" + Network::address(0) + ":29631",
        {"TUTTI_ADVERTISE=" + Network::address(0)});
  start(1, 1, 2, "tcp://" + Network::address(2) + ":29630");
  expect_success(workers_);
  EXPECT_TRUE(forwarder.hear("taken"));
}

/// A rank that nobody can dial, since what goes there is lost on the way.
class OneDirection : public Addresses, public ::testing::WithParamInterface<int> {};

TEST_P(OneDirection, TheOtherDials) {
  const std::string nowhere = "10.77.0.99";  // a station that there is not
  for (const int i : {0, 1, 2}) {
    ASSERT_TRUE(runs(joined({network_.entering(i),
                             {"ip", "neigh", "replace", nowhere, "lladdr", "02:00:00:00:00:77"},
                             {"dev", "eth0", "nud", "permanent"}})));
  }
  const std::string url = "tcp://" + Network::address(0) + ":29621";
  for (const int rank : {0, 1, 2}) {
    Words variables = {"TUTTI_LINK_TIMEOUT=3"};
    if (rank == GetParam()) variables.push_back("TUTTI_ADVERTISE=" + nowhere);
    start(rank, rank, 3, url, variables);
  }
  expect_success(workers_);
}

// With ranks above and below it, and above all.
INSTANTIATE_TEST_SUITE_P(ToRank, OneDirection, ::testing::Values(1, 2));

TEST_F(Addresses, APortThatIsTakenIsTold) {
  const std::string url = "tcp://127.0.0.1:29620";
  for (const int rank : {0, 1}) start(0, rank, 2, url, {"TUTTI_PORT=7000"});
  int told = 0;
  for (Worker& worker : workers_) {
    const std::string error = wait_for_error(worker).text;
    if (error.find("cannot listen on 127.0.0.1:7000") == std::string::npos) continue;
    expect_has(error, "another one for each rank of a host");
    ++told;
  }
  EXPECT_GE(told, 1);
}

}  // namespace
}  // namespace tutti::fault
