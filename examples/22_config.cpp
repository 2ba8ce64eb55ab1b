// Broadcast of a config: rank 0 alone reads it, and no other rank knows how long it is.
//
//   tuttirun --nproc-per-node 4 22_config

#include <cstdio>
#include <string>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group({.or_alone = true});
  std::string config;
  if (world.rank() == 0) config = "steps = 100\nrate = 0.2\n";  // as out of a file

  world.broadcast_object(config, {.root = 0});

  std::printf("rank %d has a config of %zu characters\n", world.rank(), config.size());
  return config == "steps = 100\nrate = 0.2\n" ? 0 : 1;
}
