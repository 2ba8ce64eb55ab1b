#include <gtest/gtest.h>

#include <sched.h>

#include <fstream>
#include <random>
#include <thread>

#include "job.hpp"

// Ranks in four network namespaces that one bridge joins, made by the test itself. The test starts
// itself again under `unshare`: everything it makes vanishes with its last process.
namespace tutti::fault {
namespace {

constexpr double kHang = 20;  // seconds
constexpr int kNamespaces = 4;

/// Runs a program to its end; whether it went well.
bool runs(std::vector<std::string> argv) {
  os::SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  auto process = os::spawn(options);
  if (!process) return false;
  auto status = process->wait(in(10));
  const bool well = status && *status && (*status)->success();
  if (!well) (void)process->kill_group(SIGKILL);
  (void)process->wait(in(5));
  (void)process->collect();
  return well;
}

/// Namespaces 10.77.0.1 .. .4, each kept by a sleeping process.
class Network {
 public:
  bool make() {
    if (!runs({"ip", "link", "set", "lo", "up"})) return false;
    if (!runs({"ip", "link", "add", "name", bridge(), "type", "bridge"})) return false;
    if (!runs({"ip", "link", "set", bridge(), "up"})) return false;
    for (int i = 0; i < kNamespaces; ++i) {
      keepers_.emplace_back(std::vector<std::string>{"unshare", "-n", "sleep", "300"},
                            std::vector<std::string>{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
      const std::string pid = std::to_string(keepers_.back().pid());
      const std::string outer = link(i);
      const auto deadline = in(5);
      while (same_namespace(pid) && Clock::now() < deadline) std::this_thread::yield();
      if (!runs({"ip", "link", "add", "name", outer, "type", "veth", "peer", "name", "eth0",
                 "netns", pid}) ||
          !runs({"ip", "link", "set", outer, "master", bridge()}) ||
          !runs({"ip", "link", "set", outer, "up"}) ||
          !inside(i, {"ip", "link", "set", "lo", "up"}) ||
          !inside(i, {"ip", "addr", "add", address(i) + "/24", "dev", "eth0"}) ||
          !inside(i, {"ip", "link", "set", "eth0", "up"})) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] std::vector<std::string> entering(int i) const {
    return {"nsenter", "-n", "-t", std::to_string(keepers_[static_cast<std::size_t>(i)].pid()),
            "--"};
  }
  [[nodiscard]] bool cut(int i) const { return runs({"ip", "link", "set", link(i), "down"}); }
  static std::string address(int i) { return "10.77.0." + std::to_string(i + 1); }

 private:
  // Names of this network only: the links of an earlier one vanish a moment after its processes.
  [[nodiscard]] std::string bridge() const { return "tuttibr" + std::to_string(number_); }
  [[nodiscard]] std::string link(int i) const {
    return "tutti" + std::to_string(number_) + "v" + std::to_string(i);
  }
  static int next() {
    static int made = 0;
    return ++made;
  }
  static bool same_namespace(const std::string& pid) {
    char ours[64] = {};
    char theirs[64] = {};
    (void)!::readlink("/proc/self/ns/net", ours, sizeof(ours) - 1);
    (void)!::readlink(("/proc/" + pid + "/ns/net").c_str(), theirs, sizeof(theirs) - 1);
    return std::string(ours) == theirs;
  }
  [[nodiscard]] bool inside(int i, const std::vector<std::string>& argv) const {
    std::vector<std::string> all = entering(i);
    all.insert(all.end(), argv.begin(), argv.end());
    return runs(all);
  }
  int number_ = next();
  std::vector<Worker> keepers_;
};

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("FAULT_NO_NAMESPACES") != nullptr)
      GTEST_SKIP() << "neither `unshare -n` nor `unshare -Urn` works here";
    if (!network_.make()) GTEST_SKIP() << "no bridge or virtual link can be made here";
  }
  std::vector<Worker> start(int per_namespace, std::vector<std::string> arguments,
                            const std::string& timeout = "10") {
    JobOptions options;
    options.size = kNamespaces * per_namespace;
    options.arguments = std::move(arguments);
    options.environment = {"TUTTI_TIMEOUT=" + timeout, "TUTTI_LOG_LEVEL=error"};
    options.master = Network::address(0);
    options.port = 29517;
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
  static void expect_named(Worker& worker, int rank, long long since, double least, double most) {
    ASSERT_TRUE(worker.wait(in(kHang))) << "hangs";
    const auto error = worker.hear("error", in(0));
    ASSERT_TRUE(error);
    EXPECT_NE(error->text.find("rank " + std::to_string(rank)), std::string::npos) << error->text;
    const double took = static_cast<double>(error->at - since) / 1e9;
    std::printf("named after %.2f s: %s\n", took, error->text.c_str());
    EXPECT_GE(took, least);
    EXPECT_LE(took, most);
  }
  Network network_;
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
  for (Worker& worker : workers) ASSERT_TRUE(worker.hear("ready", in(kHang)));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  workers[2].signal(SIGSTOP);
  const long long since = now_ns();
  for (const int rank : {0, 1, 3})
    expect_named(workers[static_cast<std::size_t>(rank)], 2, since, 1.4, 4);
}

TEST_F(Namespaces, CutLinkIsNoticedInAboutASecond) {
  auto workers = start(1, {"latency", "100000000"}, "15");
  for (Worker& worker : workers) ASSERT_TRUE(worker.hear("ready", in(kHang)));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(network_.cut(3));
  const long long since = now_ns();
  for (const int rank : {0, 1, 2})
    expect_named(workers[static_cast<std::size_t>(rank)], 3, since, 0, 3);
}

TEST_F(Namespaces, GarbageDisturbsNobody) {
  auto workers = start(1, {"churn", "5", "300"});
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
  expect_success(workers);
}

}  // namespace
}  // namespace tutti::fault

int main(int argc, char** argv) {
  if (std::getenv("FAULT_INSIDE") == nullptr && std::getenv("FAULT_NO_NAMESPACES") == nullptr) {
    // In namespaces of our own; where that is not allowed, every test says so.
    const bool plain = tutti::fault::runs({"unshare", "-n", "true"});
    const bool user = !plain && tutti::fault::runs({"unshare", "-Urn", "true"});
    ::setenv(plain || user ? "FAULT_INSIDE" : "FAULT_NO_NAMESPACES", "1", 1);
    if (plain || user) {
      std::vector<char*> arguments{const_cast<char*>("unshare"),
                                   const_cast<char*>(plain ? "-n" : "-Urn"),
                                   const_cast<char*>("--")};
      arguments.insert(arguments.end(), argv, argv + argc + 1);
      ::execvp("unshare", arguments.data());
      return 1;
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
