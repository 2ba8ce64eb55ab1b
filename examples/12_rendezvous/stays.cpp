// The other of two different programs (see leaves.cpp): it works on when its partner is gone. That
// is no error for who needs nothing more from it; who does is told at once who has left.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

int main(int argc, char** argv) {
  tutti::InitOptions options;
  options.init_method = argc > 1 ? argv[1] : "env://";
  if (options.init_method != "env://") {
    options.rank = 1;
    options.size = 2;
  }
  options.timeout = std::chrono::seconds(20);
  try {
    tutti::ProcessGroup world = tutti::init_process_group(options);
    std::printf("rank %d of %d has met the other\n", world.rank(), world.size());
    std::vector<int> values{1, 2, 3};
    try {
      world.all_reduce(values).wait();
      return 1;  // the other has called nothing
    } catch (const tutti::NetworkError& error) {
      std::printf("%s\n", error.what());
      return error.code() == tutti::Errc::peer_left && error.culprit() == 0 ? 0 : 1;
    }
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
