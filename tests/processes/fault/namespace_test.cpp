#include <set>

#include "network.hpp"
#include "support/rotation.hpp"
#include "support/sleeper.hpp"

// Ranks in four network namespaces that one bridge joins, made by the test itself.
namespace tutti::fault {
namespace {

constexpr double kNamed = 2000;  // milliseconds: the limit of a link, and a second
constexpr int kNamespaces = Network::kNamespaces;

class Namespaces : public NetworkTest {
 protected:
  /// `transport`: "tls" or none.
  std::vector<Worker> start(int per_namespace, const Words& arguments,
                            const std::string& timeout = "10", const std::string& transport = {}) {
    JobOptions options = job_of(transport == "tls" ? transport : "auto", arguments, timeout,
                                kNamespaces * per_namespace);
    options.environment = joined(
        {options.environment, {"TUTTI_LOG_LEVEL=error"}, {"TUTTI_LINK_TIMEOUT=" + link_timeout_}});
    options.master = Network::address(0);
    options.port = next_port_++;
    for (int rank = 0; rank < options.size; ++rank)
      options.prefixes.push_back(network_.entering(rank / per_namespace));
    return start_job(options);
  }
  /// A job for each of them, all of whose ranks have said the word.
  void start_each(const std::vector<Words>& jobs, const std::string& word,
                  const std::string& timeout, const std::string& transport = {},
                  int per_namespace = 1) {
    for (const auto& arguments : jobs)
      jobs_.push_back(start(per_namespace, arguments, timeout, transport));
    for (std::size_t job = jobs_.size() - jobs.size(); job < jobs_.size(); ++job)
      ASSERT_NO_FATAL_FAILURE(hear_all(jobs_[job], word));
  }
  /// Ranks with these states between the last and the others, see `link` in fault_modes.cpp.
  void start_links(const Words& states, const std::string& transport = {}, int per_namespace = 1) {
    std::vector<Words> jobs;
    for (const std::string& state : states) jobs.push_back({"link", state});
    start_each(jobs, "there", "15", transport, per_namespace);
  }
  /// Ranks that repeat these operations.
  void start_operations(const Words& operations, int per_namespace = 1) {
    std::vector<Words> jobs;
    for (const std::string& one : operations) jobs.push_back({"repeat", one, "2000"});
    start_each(jobs, "going", "15", {}, per_namespace);
  }
  /// All ranks are told to go on, and do.
  void end_all() {
    for (auto& workers : jobs_) {
      for (Worker& worker : workers) worker.signal(SIGUSR1);
      ASSERT_NO_FATAL_FAILURE(expect_success(workers));
    }
  }
  /// The error over which it has ended, in time on a machine that wakes who has slept.
  std::string error_in_time(Worker& worker, long long since, double most_ms) {
    const Said error = wait_for_error(worker);
    const double took = static_cast<double>(error.at - since) / 1e6;
    std::printf("told after %.2f s: %.130s\n", took / 1e3, error.text.c_str());
    EXPECT_LE(took, sleeper_.bound_ms(most_ms, since, error.at)) << error.text;
    return error.text;
  }
  void begin_what_waits(const Words& names) {
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      if (!names[job].ends_with("_later")) continue;
      for (Worker& worker : jobs_[job]) worker.signal(SIGUSR1);
    }
  }
  /// Cuts the last namespace off. All others then name one of the ranks in it, in time.
  void cut_and_expect_named(const Words& names, const std::set<int>& lost) {
    ASSERT_TRUE(network_.cut(kNamespaces - 1));
    const long long since = now_ns();
    begin_what_waits(names);
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      SCOPED_TRACE(names[job]);
      for (std::size_t rank = 0; rank < jobs_[job].size() - lost.size(); ++rank) {
        const ToldError error(error_in_time(jobs_[job][rank], since, kNamed));
        EXPECT_EQ(error.code, "peer_lost") << error.text;
        EXPECT_TRUE(lost.contains(error.culprit)) << error.text;
        if (HasFailure()) return;  // each of them may wait for a minute
      }
    }
  }
  test::Sleeper sleeper_;
  std::vector<std::vector<Worker>> jobs_;
  int next_port_ = 29600;
  std::string link_timeout_ = "1";
};

TEST_F(Namespaces, EveryOperationTwoRanksEach) {
  auto workers = start(2, {"churn", "3", "60"});
  expect_success(workers);
}

TEST_F(Namespaces, StoppedRankIsNamed) {
  auto workers = start(1, {"latency", "100000000"}, "1.5");
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "going"));
  workers[2].signal(SIGSTOP);
  const long long since = now_ns();
  Told told;
  for (const std::size_t rank : {0U, 1U, 3U}) {
    expect_has(error_in_time(workers[rank], since, 4000), "rank 2");
    ASSERT_NO_FATAL_FAILURE(told.add(workers[rank]));
  }
  told.expect_not_before(1.5);
}

/// Each operation, with its own direction of the data: a job for each, over the same link.
TEST_F(Namespaces, CutLinkIsNamedInEveryOperation) {
  const Words operations = {"all_reduce",        "broadcast", "gather",   "barrier",
                            "all_to_all_splits", "new_group", "send_recv"};
  ASSERT_NO_FATAL_FAILURE(start_operations(operations));
  cut_and_expect_named(operations, {3});
}

/// Ranks of which some see the cut only through those of their own host.
TEST_F(Namespaces, CutLinkIsNamedByManyRanks) {
  constexpr int kEach = 3;
  for (const char* const operation : {"all_to_all_splits", "all_reduce"})
    ASSERT_NO_FATAL_FAILURE(start_operations({operation}, kEach));
  ASSERT_NO_FATAL_FAILURE(start_links({"waiting"}, {}, kEach));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  cut_and_expect_named({"all_to_all_splits", "all_reduce", "waiting"}, {9, 10, 11});
}

/// Each state between the last rank and the others when its link is cut, at several moments
/// between two looks at a peer that is waited for; one of them, by rotation, unless there is time.
TEST_F(Namespaces, CutLinkIsNamedInEveryState) {
  const Words states = {"waiting", "sending", "receiving", "used_later", "dialled_later"};
  for (int moment = 0; moment < 4; ++moment) {
    if (!test::has_its_turn(static_cast<std::uint64_t>(moment), 4)) continue;
    const std::string transport = moment == 0 ? "tls" : "tcp";
    SCOPED_TRACE(transport + ", moment " + std::to_string(moment));
    ASSERT_NO_FATAL_FAILURE(start_links(states, transport));
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + 55 * moment));
    cut_and_expect_named(states, {3});
    ASSERT_TRUE(network_.join(3));
    jobs_.clear();
  }
}

/// "No route to host" is a network's answer, and not the host's: a neighbour was sought in vain.
TEST_F(Namespaces, HostThatIsSoughtInVainForAMomentIsNotLost) {
  ASSERT_NO_FATAL_FAILURE(start_links({"dialled_later"}));
  std::vector<Worker>& workers = jobs_.front();
  ASSERT_TRUE(network_.hide(3));
  for (Worker& worker : workers) worker.signal(SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_TRUE(network_.show(3));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  for (Worker& worker : workers) {
    const auto error = worker.heard("error");
    EXPECT_FALSE(error) << error->text;
  }
  cut_and_expect_named({"waiting"}, {3});
}

/// The last namespace hears nothing more, or is not heard any more.
TEST_F(Namespaces, LinkThatIsCutOneWayIsNamed) {
  const Words states = {"waiting", "sending", "receiving", "used_later"};
  for (const bool deaf : {true, false}) {
    SCOPED_TRACE(deaf ? "rank 3 hears nothing" : "rank 3 is not heard");
    ASSERT_NO_FATAL_FAILURE(start_links(states));
    ASSERT_TRUE(network_.cut_one_way(3, deaf));
    const long long since = now_ns();
    begin_what_waits(states);
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      SCOPED_TRACE(states[job]);
      for (Worker& worker : jobs_[job]) (void)error_in_time(worker, since, kNamed);
      if (HasFailure()) return;
    }
    ASSERT_TRUE(network_.join_one_way(3));
    jobs_.clear();
  }
}

/// All are told of both ends, whoever notices the cut first, and that others reach both.
TEST_F(Namespaces, CutBetweenTwoHostsIsToldAsThat) {
  ASSERT_NO_FATAL_FAILURE(start_operations({"all_to_all_splits", "barrier"}));
  ASSERT_TRUE(network_.cut_between(1, 2));
  for (auto& workers : jobs_) {
    for (Worker& worker : workers) {
      const Said error = wait_for_error(worker);
      SCOPED_TRACE(error.text);
      const int culprit = ToldError(error.text).culprit;
      const std::string told = std::to_string(3 - culprit);  // by the other one
      ASSERT_TRUE(culprit == 1 || culprit == 2);
      expect_has(error.text, ": lost rank " + std::to_string(culprit) + " on ");
      expect_has(error.text, ": only rank " + told + " on ");
      expect_has(error.text,
                 " still reaches both: rank " + told + " (" + Network::address(3 - culprit) + ":");
      expect_has(error.text, ") lost the connection to rank " + std::to_string(culprit) + " (" +
                                 Network::address(culprit) + ":");
    }
  }
}

/// A firewall that drops what does not go to the store, which rank 0 serves.
TEST_F(Namespaces, DroppedConnectionsAreNotTheStores) {
  link_timeout_ = "3";  // the store has to answer meanwhile, on a busy machine
  ASSERT_NO_FATAL_FAILURE(start_each({{"late", "3"}}, "waiting", "15"));
  ASSERT_TRUE(network_.cut_between(1, 3));
  jobs_[0][1].signal(SIGUSR1);
  const Said error = wait_for_error(jobs_[0][1]);
  EXPECT_EQ(error.text.substr(0, 12), "peer_lost 3 ") << error.text;
  expect_has(error.text, "rank 1 (" + Network::address(1) + ":");
  expect_has(error.text, ") cannot connect to rank 3 (" + Network::address(3) + ":");
  expect_has(error.text, ": no connection after 3000 ms");
  expect_has(error.text, "? Yet the store at " + Network::address(0) + ":");
  expect_has(error.text,
             " was reached, and for it that rank still runs: does a firewall let only ");
}

/// Gaps that are shorter than the limit of a link, while much is under way and while nothing is.
/// The store's connections go over the same links.
TEST_F(Namespaces, GapsAreSurvivedWithNothingLost) {
  link_timeout_ = "15";
  for (const char* const transport : {"tcp", "tls"}) {
    ASSERT_NO_FATAL_FAILURE(
        start_each({{"rest_until_told"}, {"flow_until_told"}}, "there", "60", transport));
  }
  for (const int gap : {700, 4000}) {
    ASSERT_TRUE(network_.cut(3));
    std::this_thread::sleep_for(std::chrono::milliseconds(gap));
    ASSERT_TRUE(network_.join(3));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  end_all();
}

/// A host that lives may lose a packet: with the shortest limit, too, an idle connection stays.
TEST_F(Namespaces, OneQuestionThatIsLostEndsNoConnection) {
  for (int tries = 0; tries < 5; ++tries) {
    ASSERT_NO_FATAL_FAILURE(start_each({3, {"rest_until_told"}}, "there", "60"));
    const long long since = now_ns();
    ASSERT_TRUE(network_.cut(3));
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    ASSERT_TRUE(network_.join(3));
    if (now_ns() - since < 950'000'000) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1300));
      return end_all();
    }
    jobs_.clear();  // a machine that slept: two questions may have been lost
  }
  FAIL() << "no gap was short";
}

/// A rank that ends during a gap does not take back what it has sent.
TEST_F(Namespaces, MessagesOfRanksThatEndDuringAGapArrive) {
  link_timeout_ = "6";
  for (const char* const transport : {"tcp", "tls"})
    ASSERT_NO_FATAL_FAILURE(start_links({"ends_later"}, transport));
  ASSERT_TRUE(network_.cut(3));
  for (auto& workers : jobs_) {
    for (Worker& worker : workers) worker.signal(SIGUSR1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  ASSERT_TRUE(network_.join(3));
  for (auto& workers : jobs_) ASSERT_NO_FATAL_FAILURE(expect_success(workers));
}

/// Its kernel answers while it does not read: that is no gap, however long it lasts.
TEST_F(Namespaces, StoppedRankWithFullWindowsIsNotLost) {
  ASSERT_TRUE(network_.narrow(3));
  for (const char* const transport : {"tcp", "tls"})
    ASSERT_NO_FATAL_FAILURE(start_each({{"flow_until_told"}}, "there", "60", transport));
  for (auto& workers : jobs_) workers[3].signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3200));
  for (auto& workers : jobs_) workers[3].signal(SIGCONT);
  end_all();
}

TEST_F(Namespaces, GarbageDisturbsNobody) {
  auto workers = start(1, {"churn_until_told", "5"});
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "ready"));
  const std::string script =
      "import glob,os,socket\n"  // a socket of both families stands in the table of IPv6
      "ports=[int(l.split()[1].split(':')[1],16) for table in glob.glob('/proc/net/tcp*') "
      "for l in open(table) if l.split()[3]=='0A']\n"
      "kept=[]\n"
      "for port in ports*5:\n"
      "  try:\n"
      "    kept.append(socket.create_connection((os.environ['ADDRESS'],port),1)); "
      "kept[-1].send(os.urandom(3000))\n"
      "  except OSError: pass\n"
      "assert kept\n";
  for (int i = 0; i < kNamespaces; ++i) {
    EXPECT_TRUE(runs(joined({network_.entering(i),
                             {"env", "ADDRESS=" + Network::address(i)},
                             {"python3", "-c", script}})));
  }
  workers[0].signal(SIGUSR1);
  expect_success(workers);
}

}  // namespace
}  // namespace tutti::fault
