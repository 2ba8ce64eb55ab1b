#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "support/operations.hpp"

// What a large operation on strided tensors takes beside them: never a copy of the tensor. Started
// by tuttirun.
namespace tutti {
namespace {

constexpr std::size_t kLarge = std::size_t{16} << 20;  // float32: 64 MiB
constexpr std::size_t kElements = std::size_t{2} << 20;
constexpr long kMostKiB = 4096;        // of the all_reduce of 64 MiB
constexpr long kMostOthersKiB = 6144;  // a block of them is 8 MiB: no copy of one

/// A line of /proc/self/status, in KiB.
long status_kib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stol(line.substr(name.size() + 1));
  }
  return -1;
}

/// The peak of what is resident begins anew, at what is resident now.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  return file.good();
}

double value(int from, std::size_t to, std::size_t i) {
  return static_cast<double>((i + to * 3 + static_cast<std::size_t>(from)) & 63);
}

void measure(Config config) {
  config.timeout = std::chrono::seconds(60);
  ProcessGroup world = init_process_group({.config = config});
  std::vector<float> one(1, 1.0F);
  world.all_reduce(one).wait();
  for (const test::Operation& operation : test::kOperations) {
    const bool even = operation.blocks == test::Operation::Blocks::even;
    if (!has_data(operation.kind) || (!even && operation.name != "all_to_all_splits")) continue;
    const bool blocks = traits_of(operation.kind).layout != Layout::same;
    const std::size_t count = operation.kind == Kind::all_reduce ? kLarge : kElements;
    if (blocks) {  // the rings of outboxes are taken into use once
      test::CallPlan first =
          test::plan_of(operation, {.count = kElements / 4}, world.rank(), world.size(), value);
      first.in = first.out = test::Form::strided;
      test::PreparedCall<float>(first).run(world);
    }
    test::CallPlan plan =
        test::plan_of(operation, {.count = count}, world.rank(), world.size(), value);
    plan.in = plan.out = test::Form::strided;
    test::PreparedCall<float> call(plan);
    world.barrier().wait();
    ASSERT_TRUE(reset_peak());
    const long before = status_kib("VmHWM");
    call.run(world);
    const long raised = status_kib("VmHWM") - before;
    if (world.rank() == 0)
      std::printf("%s: %ld KiB\n", std::string(operation.name).c_str(), raised);
    EXPECT_GT(before, 10'000);
    EXPECT_LE(raised, operation.kind == Kind::all_reduce ? kMostKiB : kMostOthersKiB)
        << operation.name << ", rank " << world.rank();
    EXPECT_EQ(call.wrong(), 0U) << call.text();
  }
}

TEST(PeakMemory, OfStridedOperationsInSharedMemory) { measure({}); }

TEST(PeakMemory, OfStridedOperationsOverTcp) {
  Config config;
  config.transport = Config::TransportChoice::tcp;
  measure(config);
}

}  // namespace
}  // namespace tutti
