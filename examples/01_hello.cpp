// The smallest job: every process joins, says who it is, and all wait for each other.
//
//   tuttirun --nproc-per-node 4 01_hello

#include <cstdio>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  std::printf("hello from rank %d of %d\n", world.rank(), world.size());
  world.barrier().wait();
}
