// One of two different programs that meet without a launcher: this one serves the store, if there
// is one to serve, and ends as soon as it has met the other. Start them in any order:
//
//   12_rendezvous_leaves tcp://127.0.0.1:29511 &
//   12_rendezvous_stays tcp://127.0.0.1:29511
//
// or both with file:///shared/rendezvous-7, or with env:// and RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT in the environment.

#include <cstdio>
#include <string>

#include <tutti/tutti.hpp>

int main(int argc, char** argv) {
  tutti::InitOptions options;
  options.init_method = argc > 1 ? argv[1] : "env://";
  if (options.init_method != "env://") {  // there RANK and WORLD_SIZE say it
    options.rank = 0;
    options.size = 2;
  }
  options.timeout = std::chrono::seconds(20);
  try {
    const tutti::ProcessGroup world = tutti::init_process_group(options);
    std::printf("rank %d of %d has met the other and goes\n", world.rank(), world.size());
    return world.size() == 2 ? 0 : 1;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
