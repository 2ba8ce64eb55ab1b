#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include <tutti/tutti.hpp>

// An operation goes on while nobody calls us. How much time that saves is measured by
// bench/micro/overlap_bench.
namespace tutti {
namespace {

/// Whatever the compiler believes of memory that nobody here writes.
bool reads(const std::vector<float>& data, float value) {
  const volatile float* const memory = data.data();
  for (std::size_t at = 0; at < data.size(); at += data.size() / 64) {
    if (memory[at] != value) return false;
  }
  return memory[data.size() - 1] == value;
}

void compute_meanwhile(const Config& config) {
  ProcessGroup world = init_process_group({.config = config});
  std::vector<float> data(std::size_t{4} << 20);  // 16 MiB
  for (int round = 1; round <= 5; ++round) {
    std::fill(data.begin(), data.end(), static_cast<float>(round));
    Work work = world.all_reduce(data);
    // Nothing of the library is called from here on, on any rank, until the sum lies there.
    const float sum = static_cast<float>(round * world.size());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!reads(data, sum)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nobody drives the operation";
    }
    while (!work.done())  // its last step may still be under way; nobody waits for it
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    work.wait();
    EXPECT_EQ(std::count(data.begin(), data.end(), sum), std::ssize(data));
  }
}

TEST(Overlap, InSharedMemory) { compute_meanwhile({}); }

TEST(Overlap, OverTcp) {
  Config config;
  config.transport = Config::TransportChoice::tcp;
  compute_meanwhile(config);
}

}  // namespace
}  // namespace tutti
