#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "network.hpp"
#include "support/sleeper.hpp"

// Ranks in four network namespaces that one bridge joins, made by the test itself. The test starts
// itself again under `unshare`: everything it makes vanishes with its last process.
namespace tutti::fault {
namespace {

constexpr double kHang = 60;     // seconds
constexpr double kNamed = 2000;  // milliseconds: the limit of a link, and a second
constexpr int kNamespaces = Network::kNamespaces;

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!in_network_namespace()) GTEST_SKIP() << kNoNamespaces;
    if (!network_.make()) GTEST_SKIP() << "no bridge or virtual link can be made here";
  }
  std::vector<Worker> start(int per_namespace, std::vector<std::string> arguments,
                            const std::string& timeout = "10",
                            const std::string& program = FAULT_WORKER, int port = 29517,
                            const std::vector<std::string>& more = {}) {
    JobOptions options;
    options.program = program;
    options.size = kNamespaces * per_namespace;
    options.arguments = std::move(arguments);
    options.environment = {"TUTTI_TIMEOUT=" + timeout, "TUTTI_LOG_LEVEL=error",
                           "TUTTI_LINK_TIMEOUT=" + link_timeout_};
    options.environment.insert(options.environment.end(), more.begin(), more.end());
    options.master = Network::address(0);
    options.port = port;
    for (int rank = 0; rank < options.size; ++rank)
      options.prefixes.push_back(network_.entering(rank / per_namespace));
    return start_job(options);
  }
  static void expect_success(std::vector<Worker>& workers) {
    for (Worker& worker : workers) {
      const auto status = worker.wait(in(kHang));
      ASSERT_TRUE(status) << "hangs";
      const auto error = worker.hear("error", in(0));
      EXPECT_TRUE(status->success()) << status->shell_code() << " " << (error ? error->text : "");
    }
  }
  /// `most`: seconds on a machine that wakes who has slept.
  void expect_named(Worker& worker, int rank, long long since, double most) {
    ASSERT_TRUE(worker.wait(in(kHang))) << "hangs";
    const auto error = worker.hear("error", in(0));
    ASSERT_TRUE(error);
    EXPECT_NE(error->text.find("rank " + std::to_string(rank)), std::string::npos) << error->text;
    const double took = static_cast<double>(error->at - since) / 1e9;
    std::printf("named after %.2f s: %s\n", took, error->text.c_str());
    EXPECT_LE(1e3 * took, sleeper_.bound_ms(1e3 * most, since, error->at));
  }
  static void hear_all(std::vector<Worker>& workers, const std::string& word) {
    for (Worker& worker : workers) ASSERT_TRUE(worker.hear(word, in(kHang)));
  }
  /// Ranks with that between the last and the others, see fault_worker.cpp.
  std::vector<Worker> start_link(const std::string& state, const std::string& way_of_talking,
                                 int per_namespace = 1) {
    std::vector<std::string> more;
    if (way_of_talking == "tls") more = way(way_of_talking);
    return start(per_namespace, {"link", state}, "15", FAULT_WORKER, next_port_++, more);
  }
  static void begin_what_waits(std::vector<std::vector<Worker>>& jobs,
                               const std::vector<std::string>& names) {
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      for (Worker& worker : jobs[job]) {
        if (names[job].ends_with("_later")) worker.signal(SIGUSR1);
      }
    }
  }
  /// Cuts the last namespace off. All others then name one of the ranks in it, in time.
  void cut_and_expect_named(std::vector<std::vector<Worker>>& jobs,
                            const std::vector<std::string>& names, const std::set<int>& lost) {
    ASSERT_TRUE(network_.cut(kNamespaces - 1));
    const long long since = now_ns();
    begin_what_waits(jobs, names);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      SCOPED_TRACE(names[job]);
      double slowest = 0;
      for (std::size_t rank = 0; rank < jobs[job].size() - lost.size(); ++rank) {
        Worker& worker = jobs[job][rank];
        ASSERT_TRUE(worker.wait(in(kHang))) << "hangs";
        const auto error = worker.hear("error", in(0));
        ASSERT_TRUE(error);
        const double took = static_cast<double>(error->at - since) / 1e9;
        std::istringstream words(error->text);
        std::string code;
        int culprit = -1;
        words >> code >> culprit;
        EXPECT_EQ(code, "peer_lost") << error->text;
        EXPECT_TRUE(lost.contains(culprit)) << error->text;
        EXPECT_LE(1e3 * took, sleeper_.bound_ms(kNamed, since, error->at)) << error->text;
        slowest = std::max(slowest, took);
      }
      std::printf("%s: named after at most %.2f s (a sleeper beside was late by at most %.0f ms)\n",
                  names[job].c_str(), slowest, sleeper_.worst_ms(since, now_ns()));
    }
  }
  Network network_;
  test::Sleeper sleeper_;
  int next_port_ = 29600;
  std::string link_timeout_ = "1";
};

TEST_F(Namespaces, SmallAllReduceOneRankEach) {
  auto workers = start(1, {"latency", "500"});
  expect_success(workers);
  const auto told = workers[0].hear("latency", in(0));
  ASSERT_TRUE(told);
  std::printf("64 bytes: %s ns per all_reduce\n", told->text.c_str());
}

TEST_F(Namespaces, EveryOperationTwoRanksEach) {
  auto workers = start(2, {"churn", "3", "60"});
  expect_success(workers);
}

TEST_F(Namespaces, StoppedRankIsNamed) {
  auto workers = start(1, {"latency", "100000000"}, "1.5");
  for (Worker& worker : workers) ASSERT_TRUE(worker.hear("going", in(kHang)));
  workers[2].signal(SIGSTOP);
  const long long since = now_ns();
  Told told;
  for (const int rank : {0, 1, 3}) {
    Worker& worker = workers[static_cast<std::size_t>(rank)];
    expect_named(worker, 2, since, 4);
    ASSERT_NO_FATAL_FAILURE(told.add(worker));
  }
  told.expect_not_before(1.5);
}

/// Each operation, with its own direction of the data: a job for each, over the same link.
TEST_F(Namespaces, CutLinkIsNamedInEveryOperation) {
  const std::vector<std::string> operations = {"all_reduce", "broadcast",         "gather",
                                               "barrier",    "all_to_all_splits", "new_group",
                                               "send_recv"};
  std::vector<std::vector<Worker>> jobs;
  for (const std::string& operation : operations) {
    jobs.push_back(start(1, {"repeat", operation, "2000"}, "15", OPERATIONS_WORKER, next_port_++));
  }
  for (auto& workers : jobs) hear_all(workers, "going");
  cut_and_expect_named(jobs, operations, {3});
}

/// Ranks of which some see the cut only through those of their own host.
TEST_F(Namespaces, CutLinkIsNamedByManyRanks) {
  constexpr int kEach = 3;
  const std::vector<std::string> names = {"all_to_all_splits", "all_reduce", "waiting"};
  std::vector<std::vector<Worker>> jobs;
  for (const char* const operation : {"all_to_all_splits", "all_reduce"}) {
    jobs.push_back(
        start(kEach, {"repeat", operation, "2000"}, "15", OPERATIONS_WORKER, next_port_++));
    hear_all(jobs.back(), "going");
  }
  jobs.push_back(start_link("waiting", "tcp", kEach));
  hear_all(jobs.back(), "there");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  cut_and_expect_named(jobs, names, {9, 10, 11});
}

/// Each state between the last rank and the others when its link is cut, at several moments
/// between two looks at a peer that is waited for.
TEST_F(Namespaces, CutLinkIsNamedInEveryState) {
  const std::vector<std::string> states = {"waiting", "sending", "receiving", "used_later",
                                           "dialled_later"};
  for (int moment = 0; moment < 4; ++moment) {
    const std::string way_of_talking = moment == 0 ? "tls" : "tcp";
    SCOPED_TRACE(way_of_talking + ", moment " + std::to_string(moment));
    std::vector<std::vector<Worker>> jobs;
    for (const std::string& state : states) jobs.push_back(start_link(state, way_of_talking));
    for (auto& workers : jobs) hear_all(workers, "there");
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + 55 * moment));
    cut_and_expect_named(jobs, states, {3});
    ASSERT_TRUE(network_.join(3));
  }
}

/// "No route to host" is a network's answer, not that of the host: a neighbour was sought in vain
/// for a moment.
TEST_F(Namespaces, HostThatIsSoughtInVainForAMomentIsNotLost) {
  std::vector<std::vector<Worker>> jobs;
  jobs.push_back(start_link("dialled_later", "tcp"));
  std::vector<Worker>& workers = jobs.front();
  hear_all(workers, "there");
  ASSERT_TRUE(network_.hide(3));
  for (Worker& worker : workers) worker.signal(SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_TRUE(network_.show(3));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  for (Worker& worker : workers) {
    const auto error = worker.hear("error", in(0));
    EXPECT_FALSE(error) << error->text;
  }
  cut_and_expect_named(jobs, {"waiting"}, {3});
}

/// The last namespace hears nothing more, or is not heard any more.
TEST_F(Namespaces, LinkThatIsCutOneWayIsNamed) {
  const std::vector<std::string> states = {"waiting", "sending", "receiving", "used_later"};
  for (const bool deaf : {true, false}) {
    SCOPED_TRACE(deaf ? "rank 3 hears nothing" : "rank 3 is not heard");
    std::vector<std::vector<Worker>> jobs;
    for (const std::string& state : states) jobs.push_back(start_link(state, "tcp"));
    for (auto& workers : jobs) hear_all(workers, "there");
    ASSERT_TRUE(network_.cut_one_way(3, deaf));
    const long long since = now_ns();
    begin_what_waits(jobs, states);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      SCOPED_TRACE(states[job]);
      for (Worker& worker : jobs[job]) {
        ASSERT_TRUE(worker.wait(in(kHang))) << "hangs";
        const auto error = worker.hear("error", in(0));
        ASSERT_TRUE(error);
        const double took = static_cast<double>(error->at - since) / 1e9;
        std::printf("%s: told after %.2f s: %.130s\n", states[job].c_str(), took,
                    error->text.c_str());
        EXPECT_LE(1e3 * took, sleeper_.bound_ms(kNamed, since, error->at));
      }
    }
    ASSERT_TRUE(network_.join_one_way(3));
  }
}

/// Gaps that are shorter than the limit of a link, while much is under way and while nothing is.
/// The store's connections go over the same links.
TEST_F(Namespaces, GapsAreSurvivedWithNothingLost) {
  link_timeout_ = "15";
  std::vector<std::vector<Worker>> jobs;
  for (const std::string& way_of_talking : {std::string("tcp"), std::string("tls")}) {
    const std::vector<std::string> more =
        way_of_talking == "tls" ? way(way_of_talking) : std::vector<std::string>();
    for (const char* const mode : {"rest_until_told", "flow_until_told"}) {
      jobs.push_back(start(1, {mode}, "60", FAULT_WORKER, next_port_++, more));
    }
  }
  for (auto& workers : jobs) hear_all(workers, "there");
  for (const int gap : {700, 4000}) {
    ASSERT_TRUE(network_.cut(3));
    std::this_thread::sleep_for(std::chrono::milliseconds(gap));
    ASSERT_TRUE(network_.join(3));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  for (auto& workers : jobs) {
    for (Worker& worker : workers) worker.signal(SIGUSR1);
    expect_success(workers);
  }
}

/// Its kernel answers while it does not read: that is no gap, however long it lasts.
TEST_F(Namespaces, StoppedRankWithFullWindowsIsNotLost) {
  ASSERT_TRUE(network_.narrow(3));
  std::vector<std::vector<Worker>> jobs;
  for (const std::string& way_of_talking : {std::string("tcp"), std::string("tls")}) {
    const std::vector<std::string> more =
        way_of_talking == "tls" ? way(way_of_talking) : std::vector<std::string>();
    jobs.push_back(start(1, {"flow_until_told"}, "60", FAULT_WORKER, next_port_++, more));
  }
  for (auto& workers : jobs) hear_all(workers, "there");
  for (auto& workers : jobs) workers[3].signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3200));
  for (auto& workers : jobs) workers[3].signal(SIGCONT);
  for (auto& workers : jobs) {
    for (Worker& worker : workers) worker.signal(SIGUSR1);
    expect_success(workers);
  }
}

TEST_F(Namespaces, GarbageDisturbsNobody) {
  auto workers = start(1, {"churn_until_told", "5"});
  for (Worker& worker : workers) ASSERT_TRUE(worker.hear("ready", in(kHang)));
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
    std::vector<std::string> argv = network_.entering(i);
    for (const std::string& word : {std::string("env"), "ADDRESS=" + Network::address(i),
                                    std::string("python3"), std::string("-c"), script}) {
      argv.push_back(word);
    }
    EXPECT_TRUE(runs(argv));
  }
  workers[0].signal(SIGUSR1);
  expect_success(workers);
}

}  // namespace
}  // namespace tutti::fault

int main(int argc, char** argv) { return tutti::fault::test_in_network_namespace(argc, argv); }
