// Ranks as threads of one process, over the same shared memory as processes: for tests, for
// debuggers and sanitizers, and for a first try without a launcher.
//
//   07_threads_as_ranks

#include <cstdio>
#include <stdexcept>
#include <vector>

#include <tutti/tutti.hpp>

int main() {
  try {
    tutti::run_threads(4, [](tutti::ProcessGroup& world) {
      std::vector<double> values{1.0, static_cast<double>(world.rank())};
      world.all_reduce(values).wait();
      if (values[0] != 4 || values[1] != 6) throw std::runtime_error("the sum is wrong");
      if (world.rank() == 0)
        std::printf("%g threads, sum of their ranks %g\n", values[0], values[1]);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
