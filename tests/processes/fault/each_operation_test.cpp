#include <random>

#include "job.hpp"
#include "support/operations.hpp"
#include "support/rotation.hpp"

// Ranks that are killed or stopped at random points of every operation, one operation at a time.
namespace tutti::fault {
namespace {

/// Ranks that repeat one operation. The test serves their store, so that all ranks are equal.
struct Job {
  Job(int size, const test::Operation& operation, std::size_t count, const std::string& transport,
      const std::string& timeout) {
    JobOptions options = job_of(
        transport, {"repeat", std::string(operation.name), std::to_string(count)}, timeout, size);
    store = serve_store(transport, options);
    workers = start_job(options);
  }
  std::shared_ptr<TcpStore> store;
  std::vector<Worker> workers;
};

using Parameters = std::tuple<test::Operation, const char*>;

class EachOperation : public ::testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  void TearDown() override {
    set_log_sink({});
    // All children were collected: nobody is left.
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }
};

/// A survivor ends over an error with this code and the victim as culprit; adds the ms it took.
void expect_told(Job& job, int rank, int victim, const std::string& code, long long since,
                 std::vector<double>& latency) {
  SCOPED_TRACE("rank " + std::to_string(rank));
  Worker& worker = job.workers[static_cast<std::size_t>(rank)];
  const Said error = wait_for_error(worker);
  const auto wrong = worker.heard("wrong");
  EXPECT_FALSE(wrong) << wrong->text;
  const ToldError told(error.text);
  EXPECT_EQ(told.code, code) << error.text;
  // Its number in the world, and in new groups, of which all ranks are members in their order.
  EXPECT_EQ(told.culprit, victim) << error.text;
  expect_has(told.text, "rank " + std::to_string(victim) + " ");
  latency.push_back(static_cast<double>(error.at - since) / 1e6);
  if (std::getenv("FAULT_VERBOSE"))
    std::printf("%.1f ms: %s\n", latency.back(), error.text.c_str());
}

TEST_P(EachOperation, SurvivorsOfAKillAreTold) {
  const auto& [operation, transport] = GetParam();
  const int kills = number_or("FAULT_KILLS", test::long_tests() ? 100 : 3);
  std::mt19937 random(
      static_cast<unsigned>(number_or("FAULT_SEED", 1 + static_cast<int>(test::rotation()))));
  std::vector<double> latency;
  int survivors = 0;
  double slowest_sleep = 0;
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    const int size = 2 + static_cast<int>(random() % 3);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    const std::size_t counts[] = {5, 2'000, 20'000};
    const std::size_t count = counts[random() % 3];
    const auto delay = std::chrono::microseconds(random() % 20'000);
    SCOPED_TRACE("kill " + std::to_string(i) + ": rank " + std::to_string(victim) + " of " +
                 std::to_string(size) + " after " + std::to_string(delay.count()) + " us, " +
                 std::to_string(count) + " elements");
    Job job(size, operation, count, transport, "10");
    ASSERT_NO_FATAL_FAILURE(hear_all(job.workers, "ready"));
    const auto before = Clock::now();
    std::this_thread::sleep_for(delay);
    slowest_sleep =
        std::max(slowest_sleep,
                 std::chrono::duration<double, std::milli>(Clock::now() - before - delay).count());
    Worker& dying = job.workers[static_cast<std::size_t>(victim)];
    const long long killed = now_ns();
    ASSERT_NO_FATAL_FAILURE(kill_now(dying));
    survivors += size - 1;
    const auto wrong = dying.heard("wrong");
    EXPECT_FALSE(wrong) << wrong->text;
    for (int rank = 0; rank < size; ++rank) {
      if (rank != victim) expect_told(job, rank, victim, "peer_lost", killed, latency);
      if (HasFailure()) return;
    }
  }
  const double worst = at(latency, 1);
  std::printf(
      "%s, %s: %d kills, %zu survivors told after ms: p50 %.1f, p99 %.1f, max %.1f (a "
      "sleeper beside was late by at most %.1f)\n",
      std::string(operation.name).c_str(), transport, kills, latency.size(), at(latency, 0.5),
      at(latency, 0.99), worst, slowest_sleep);
  RecordProperty("p99_ms", std::to_string(at(latency, 0.99)));
  ASSERT_GT(survivors, 0) << "nobody was asked: tests nothing";
  EXPECT_EQ(latency.size(), static_cast<std::size_t>(survivors));
  EXPECT_LT(worst, 5000);  // long before the timeout
}

/// A job, one rank of which was stopped: the others wait for their deadline and cost nothing.
struct Stopped {
  test::Operation operation;
  const char* transport = "";
  int victim = 0;
  long long since = 0;
  std::unique_ptr<Job> job = nullptr;
};
constexpr int kStoppedSize = 3;
constexpr double kStoppedTimeout = 1.5;  // seconds

void stop_one(Stopped& one) {
  SCOPED_TRACE(std::string(one.operation.name) + ", " + one.transport);
  one.victim = static_cast<int>(one.operation.name.size()) % kStoppedSize;  // by turns
  one.job = std::make_unique<Job>(kStoppedSize, one.operation, 2'000, one.transport,
                                  std::to_string(kStoppedTimeout));
  for (Worker& worker : one.job->workers) ASSERT_TRUE(worker.hear("ready"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  one.job->workers[static_cast<std::size_t>(one.victim)].signal(SIGSTOP);
  one.since = now_ns();
}

void expect_named_late(Stopped& one) {
  SCOPED_TRACE(std::string(one.operation.name) + ", " + one.transport);
  std::vector<double> latency;
  Told told;
  for (int rank = 0; rank < kStoppedSize; ++rank) {
    if (rank == one.victim) continue;
    expect_told(*one.job, rank, one.victim, "timeout", one.since, latency);
    if (::testing::Test::HasFailure()) return;
    ASSERT_NO_FATAL_FAILURE(told.add(one.job->workers[static_cast<std::size_t>(rank)]));
  }
  std::printf("%s, %s: rank %d stopped, named after %.2f to %.2f s\n",
              std::string(one.operation.name).c_str(), one.transport, one.victim,
              at(latency, 0) / 1e3, at(latency, 1) / 1e3);
  told.expect_not_before(kStoppedTimeout);
}

std::string name_of(const ::testing::TestParamInfo<Parameters>& one) {
  return std::string(std::get<0>(one.param).name) + "_" + std::get<1>(one.param);
}

/// Every fourth, by rotation, unless there is time: each takes as long as its timeout. And the
/// ring, in which the rank that is waited for waits itself.
std::vector<test::Operation> some_operations() {
  std::vector<test::Operation> some;
  for (std::size_t i = 0; i < std::size(test::kOperations); ++i)
    if (test::has_its_turn(i, 4)) some.push_back(test::kOperations[i]);
  some.push_back(test::kRing);
  return some;
}

constexpr const char* kOperationTransports[] = {"auto", "tcp", "mixed"};

/// Each operation over one transport, by rotation, unless there is time.
std::vector<Parameters> some_pairs() {
  std::vector<Parameters> some;
  const std::vector<test::Operation> operations = test::all_operations();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    for (std::size_t way = 0; way < std::size(kOperationTransports); ++way)
      if (test::has_its_turn(i + way, std::size(kOperationTransports)))
        some.emplace_back(operations[i], kOperationTransports[way]);
  }
  return some;
}

INSTANTIATE_TEST_SUITE_P(Kills, EachOperation, ::testing::ValuesIn(some_pairs()), name_of);
TEST(SomeOperations, AStoppedRankIsNamedAtTheDeadline) {
  constexpr std::size_t kAtOnce = 12;
  set_log_sink([](LogLevel, std::string_view) {});
  std::vector<Stopped> all;
  for (const test::Operation& operation : some_operations())
    for (const char* const transport : kOperationTransports) all.push_back({operation, transport});
  ASSERT_FALSE(all.empty());
  for (std::size_t begin = 0; begin < all.size() && !HasFailure(); begin += kAtOnce) {
    const auto some = std::span(all).subspan(begin, std::min(kAtOnce, all.size() - begin));
    for (Stopped& one : some) stop_one(one);
    if (HasFatalFailure()) break;
    for (Stopped& one : some) {
      expect_named_late(one);
      one.job.reset();
    }
  }
  set_log_sink({});
}

}  // namespace
}  // namespace tutti::fault
