// Ranks as processes without a launcher: a function runs in several forks of this program.
//
//   09_spawn

#include <array>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include <tutti/tutti.hpp>

namespace {

void work(int rank) {
  tutti::ProcessGroup world = tutti::init_process_group();
  std::array<float, 1> value{static_cast<float>(rank + 1)};
  world.all_reduce(value).wait();
  if (value[0] != 6) throw std::runtime_error("the sum is wrong");
  if (rank == 0) std::printf("3 processes, sum %g\n", static_cast<double>(value[0]));
}

}  // namespace

int main() {
  try {
    tutti::spawn(work, 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  // The error of a process is told here, and the others are ended.
  try {
    tutti::spawn(
        [](int rank) {
          if (rank == 1) throw std::runtime_error("no coffee");
          tutti::init_process_group().barrier().wait();
        },
        2);
  } catch (const tutti::SpawnError& error) {
    std::printf("%s\n", error.what());
    return error.culprit() == 1 && error.end().exception == "no coffee" ? 0 : 1;
  }
  return 1;
}
