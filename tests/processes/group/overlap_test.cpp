#include <gtest/gtest.h>

#include <tutti/tutti.hpp>

// An operation goes on while nobody calls us, as apps/bench/micro/overlap_bench measures it at
// leisure.
namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

/// Whatever the compiler believes of memory that nobody here writes.
bool reads(const std::vector<float>& data, float value) {
  const volatile float* const memory = data.data();
  for (std::size_t at = 0; at < data.size(); at += data.size() / 64)
    if (memory[at] != value) return false;
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
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (!reads(data, sum)) ASSERT_LT(Clock::now(), deadline) << "nobody drives the operation";
    // Its last step may still be under way; nobody waits for it.
    while (!work.done()) ASSERT_LT(Clock::now(), deadline);
    work.wait();
    EXPECT_EQ(std::count(data.begin(), data.end(), sum), std::ssize(data));
  }
}

/// 200 ms in which nobody calls us.
double compute() {
  double sum = 1;
  for (const auto end = Clock::now() + std::chrono::milliseconds(200); Clock::now() < end;)
    for (int i = 0; i < 1000; ++i) sum = sum * 0.999 + 0.001;
  return sum;
}

/// Of the slowest rank.
double slowest(ProcessGroup& world, Clock::time_point begin) {
  std::vector<double> took(1, Milliseconds(Clock::now() - begin).count());
  world.all_reduce(took, {.op = ReduceOp::max}).wait();
  return took[0];
}

/// After 200 ms of computing, wait() takes less than a tenth of what the operation takes. Where
/// nobody drives it meanwhile, that is all of it, in every round; where others run on this machine,
/// some rounds may be disturbed, so there are many.
void little_is_left(const Config& config) {
  constexpr int kRounds = 20;
  ProcessGroup world = init_process_group({.config = config});
  std::vector<float> data(std::size_t{4} << 20, 1.0F);   // 16 MiB
  world.all_reduce(data, {.op = ReduceOp::max}).wait();  // memory is taken into use
  double least = 1;
  int round = 0;
  for (; round < kRounds && least >= 0.1; ++round) {
    world.barrier().wait();
    auto begin = Clock::now();
    world.all_reduce(data, {.op = ReduceOp::max}).wait();
    const double operation = slowest(world, begin);
    world.barrier().wait();
    Work work = world.all_reduce(data, {.op = ReduceOp::max});
    EXPECT_GT(compute(), 0);
    begin = Clock::now();
    work.wait();
    const double waiting = slowest(world, begin);
    least = std::min(least, waiting / operation);
    if (world.rank() == 0)
      std::printf("of %.2f ms, %.3f ms are left after computing\n", operation, waiting);
  }
  EXPECT_LT(least, 0.1) << "in " << round << " rounds";
}

/// In shared memory and over TCP.
void run_each_way(void (*run)(const Config& config)) {
  for (const auto transport : {Config::TransportChoice::automatic, Config::TransportChoice::tcp}) {
    Config config;
    config.transport = transport;
    run(config);
  }
}

TEST(Overlap, LeavesLittleToWaitFor) { run_each_way(little_is_left); }
TEST(Overlap, NeedsNobodyWhoCalls) { run_each_way(compute_meanwhile); }

}  // namespace
}  // namespace tutti
