// Started by tuttirun. How much of a 16 MiB all_reduce is left to wait for after 200 ms of
// computing in which no rank calls us, beside what it takes when all wait at once.
//
//   tuttirun --nproc-per-node 2 overlap_bench

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 11;
constexpr auto kCompute = std::chrono::milliseconds(200);

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Something that keeps the core busy and the cache half full; the value is for nobody.
double compute(std::vector<double>& own) {
  const auto end = Clock::now() + kCompute;
  double sum = 0;
  while (Clock::now() < end) {
    for (double& value : own) sum += value = value * 0.999 + 0.001;
  }
  return sum;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  std::vector<float> data(std::size_t{4} << 20, 1.0F);
  std::vector<double> own(16 * 1024, 1.0);
  std::vector<double> blocking;
  std::vector<double> waiting;
  std::vector<double> worst;
  double sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    world.barrier().wait();
    auto begin = Clock::now();
    world.all_reduce(data, {.op = tutti::ReduceOp::max}).wait();
    blocking.push_back(us_since(begin));
    world.barrier().wait();
    tutti::Work work = world.all_reduce(data, {.op = tutti::ReduceOp::max});
    sum += compute(own);
    begin = Clock::now();
    work.wait();
    waiting.push_back(us_since(begin));
  }
  // Of the slowest rank.
  worst = {median(waiting), *std::max_element(waiting.begin(), waiting.end())};
  world.all_reduce(worst, {.op = tutti::ReduceOp::max}).wait();
  if (world.rank() == 0) {
    std::printf(
        "16 MiB all_reduce, %d ranks: %.0f us when all wait at once; after %lld ms of "
        "computing wait() takes %.1f us (worst %.1f), %.2f %% of that%s\n",
        world.size(), median(blocking), static_cast<long long>(kCompute.count()), worst[0],
        worst[1], 100 * worst[0] / median(blocking), sum < 0 ? "." : "");
  }
  return 0;
}
