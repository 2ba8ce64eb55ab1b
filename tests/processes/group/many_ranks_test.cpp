#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "support/operations.hpp"
#include "support/programs.hpp"
#include "support/sanitized.hpp"

// More ranks than other tests have: every operation at least once, on one host and with the ranks
// dealt out to two and to many. tests/support/ranks_main.cpp makes no world.
namespace tutti {
namespace {

std::vector<test::Operation> operations_of_all_forms() {
  std::vector<test::Operation> all = test::all_operations();
  all.insert(all.end(), std::begin(test::kCoalesced), std::end(test::kCoalesced));
  return all;
}

void run_everything(ProcessGroup& world, const std::vector<std::size_t>& counts) {
  const int size = world.size();
  for (const test::Operation& operation : operations_of_all_forms()) {
    for (const std::size_t count : counts) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
        if (op == ReduceOp::max && !traits_of(operation.kind).reduces) continue;
        // Roots at both ends, and one in between.
        const int root = count == counts.front() ? size - 1 : op == ReduceOp::max ? 0 : size / 2;
        test::PreparedCall<float> call(
            test::plan_of(operation, {.count = count, .root = root, .op = op}, world.rank(), size));
        call.run(world);
        EXPECT_EQ(call.wrong(), 0U) << operation.name << ", root " << root << ": " << call.text();
      }
    }
  }
  world.monitored_barrier();
}

/// No rank leaves before the last has entered.
void check_barrier(ProcessGroup& world) {
  const std::shared_ptr<Store> store = world.store();
  if (store == nullptr && world.backend() != Config().backend) return;  // its ranks met without one
  ASSERT_NE(store, nullptr);
  for (int round = 0; round < 3; ++round) {
    const std::string key = "entered/" + std::to_string(round);
    store->add(key, 1);
    world.barrier().wait();
    EXPECT_EQ(store->add(key, 0), world.size());
  }
}

/// Blocks of all ranks together are as large whatever their number.
std::size_t elements_among(int size) { return 16'000 / static_cast<std::size_t>(size); }

TEST(ManyRanks, GetRightResultsFromEveryOperation) {
  ProcessGroup world = init_process_group();
  ASSERT_GT(world.size(), 8);
  run_everything(world, {3, elements_among(world.size())});
  check_barrier(world);
}

/// The ranks dealt out to so many hosts.
void run_on(int hosts) {
  Config config = Config::from_environment().value();
  const char* const rank = std::getenv("RANK");
  ASSERT_NE(rank, nullptr);
  config.host_id = "host " + std::to_string(std::atoi(rank) % hosts);
  ProcessGroup world = init_process_group({.config = config});
  run_everything(world, {elements_among(world.size())});
  check_barrier(world);
}

/// A rank tells this of itself.
struct Footprint {
  int pid = 0;
  long kib = 0;  ///< its share of memory, and its page tables
};

Footprint own_footprint() {
  Footprint own{.pid = ::getpid(), .kib = std::stol(test::status_of("self", "VmPTE"))};
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind("Pss:", 0) == 0) own.kib += std::stol(line.substr(4));
  }
  return own;
}

/// The CPU time that all threads of these processes have used.
std::chrono::nanoseconds cpu_time_of(const std::vector<Footprint>& ranks) {
  std::chrono::nanoseconds sum{};
  for (const Footprint& rank : ranks) {
    const std::string process = "/proc/" + std::to_string(rank.pid);
    for (const auto& thread : std::filesystem::directory_iterator(process + "/task")) {
      std::ifstream file(thread.path() / "schedstat");
      std::chrono::nanoseconds::rep used = 0;
      EXPECT_TRUE(file >> used) << thread.path();
      sum += std::chrono::nanoseconds(used);
    }
  }
  return sum;
}

TEST(ManyRanks, TakeLittleMemoryAndTimeWhileTheyWait) {
  using namespace std::chrono_literals;
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  ProcessGroup world = init_process_group();
  world.barrier().wait();
  std::vector<Footprint> ranks(static_cast<std::size_t>(world.size()));
  const std::vector<Footprint> own{own_footprint()};
  world.all_gather(std::as_writable_bytes(std::span(ranks)), std::as_bytes(std::span(own))).wait();
  EXPECT_LE(own.front().kib, 6 * 1024);
  if (world.rank() == 0) {
    std::this_thread::sleep_for(1500ms);  // the first second of a wait may take more
    ranks.erase(ranks.begin());
    const std::chrono::nanoseconds before = cpu_time_of(ranks);
    constexpr auto kTime = 1s;
    std::this_thread::sleep_for(kTime);
    const double used = std::chrono::duration<double>(cpu_time_of(ranks) - before) / kTime;
    std::printf("%zu ranks that wait: %.1f %% of a core\n", ranks.size(), 100 * used);
    EXPECT_LE(used, 0.05);
  }
  world.barrier().wait();
}

TEST(ManyRanks, GetRightResultsFromEveryOperationOnTwoHosts) { run_on(2); }
TEST(ManyRanks, GetRightResultsFromEveryOperationOnManyHosts) { run_on(17); }

}  // namespace
}  // namespace tutti
