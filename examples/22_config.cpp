// Broadcast of a config: rank 0 alone reads it, and no other rank knows how long it is, so the
// length goes first.
//
//   tuttirun --nproc-per-node 4 22_config

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group({.or_alone = true});
  std::string config;
  if (world.rank() == 0) config = "steps = 100\nrate = 0.2\n";  // as out of a file

  std::array<std::size_t, 1> length{config.size()};
  world.broadcast(length, {.root = 0}).wait();
  config.resize(length[0]);
  world.broadcast(config, {.root = 0}).wait();

  std::printf("rank %d has a config of %zu characters\n", world.rank(), config.size());
  return config == "steps = 100\nrate = 0.2\n" ? 0 : 1;
}
