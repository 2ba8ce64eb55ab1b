#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include <tutti/tutti.hpp>

// The C++ side of overhead.py: joins as RANK of WORLD_SIZE, then answers each number of calls on
// stdin with the nanoseconds that one of them took.
int main() {
  try {
    tutti::ProcessGroup world = tutti::init_process_group();
    std::vector<double> value(1, 0.0);  // 8 bytes, and a sum that never grows
    std::puts("ready");
    std::fflush(stdout);
    long calls = 0;
    while (std::scanf("%ld", &calls) == 1 && calls > 0) {
      for (long i = 0; i < calls / 10; ++i) world.all_reduce(value).wait();
      const auto begin = std::chrono::steady_clock::now();
      for (long i = 0; i < calls; ++i) world.all_reduce(value).wait();
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      std::printf("%.1f\n", took.count() / static_cast<double>(calls));
      std::fflush(stdout);
    }
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "overhead_worker: %s\n", problem.what());
    return 1;
  }
  return 0;
}
