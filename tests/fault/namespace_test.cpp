#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "network.hpp"
#include "support/sleeper.hpp"

// Ranks in four network namespaces that one bridge joins, made by the test itself. The test starts
// itself again under `unshare`: everything it makes vanishes with its last process.
namespace tutti::fault {
namespace {

constexpr double kHang = 60;  // seconds
constexpr int kNamespaces = Network::kNamespaces;

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!in_network_namespace()) GTEST_SKIP() << kNoNamespaces;
    if (!network_.make()) GTEST_SKIP() << "no bridge or virtual link can be made here";
  }
  std::vector<Worker> start(int per_namespace, std::vector<std::string> arguments,
                            const std::string& timeout = "10",
                            const std::string& program = FAULT_WORKER, int port = 29517) {
    JobOptions options;
    options.program = program;
    options.size = kNamespaces * per_namespace;
    options.arguments = std::move(arguments);
    options.environment = {"TUTTI_TIMEOUT=" + timeout, "TUTTI_LOG_LEVEL=error"};
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
  Network network_;
  test::Sleeper sleeper_;
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

TEST_F(Namespaces, CutLinkIsNoticedInAboutASecond) {
  auto workers = start(1, {"latency", "100000000"}, "15");
  for (Worker& worker : workers) ASSERT_TRUE(worker.hear("going", in(kHang)));
  ASSERT_TRUE(network_.cut(3));
  const long long since = now_ns();
  for (const int rank : {0, 1, 2})
    expect_named(workers[static_cast<std::size_t>(rank)], 3, since, 3);
}

/// Whatever flows which way when a link is cut: a job for each, over the same link.
TEST_F(Namespaces, CutLinkIsNoticedInEveryOperation) {
  const std::vector<std::string> operations = {"broadcast", "gather", "all_to_all_splits",
                                               "new_group", "send_recv"};
  std::vector<std::vector<Worker>> jobs;
  for (const std::string& operation : operations) {
    jobs.push_back(start(1, {"repeat", operation, "2000"}, "15", OPERATIONS_WORKER,
                         29517 + static_cast<int>(jobs.size())));
  }
  for (auto& workers : jobs) {
    // Who dials only when the link is cut waits for an answer as long as a dial may take.
    for (Worker& worker : workers) ASSERT_TRUE(worker.hear("going", in(kHang)));
  }
  ASSERT_TRUE(network_.cut(3));
  const long long since = now_ns();
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    SCOPED_TRACE(operations[job]);
    for (std::size_t rank = 0; rank < 3; ++rank) expect_named(jobs[job][rank], 3, since, 5);
  }
}

TEST_F(Namespaces, GarbageDisturbsNobody) {
  auto workers = start(1, {"churn_until_told", "5"});
  for (Worker& worker : workers) ASSERT_TRUE(worker.hear("ready", in(kHang)));
  const std::string script =
      "import os,socket,re\n"
      "ports=[int(l.split()[1].split(':')[1],16) for l in open('/proc/net/tcp') if "
      "l.split()[3]=='0A']\n"
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

int main(int argc, char** argv) {
  tutti::fault::enter_network_namespace(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
