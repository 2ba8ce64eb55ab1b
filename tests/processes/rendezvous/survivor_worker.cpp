// One process: survivor_worker WAY RANK SIZE [VICTIM...]. Meets the others (WAY: a URL, "env", or
// "tcp:PORT" or "file:PATH" for a store of its own), twice, and works until VICTIM, the process
// that was rank VICTIM at first, has killed itself. Then those who are left number themselves anew
// and go on with a new world, until all victims are gone. Lines as processes/fault/job.hpp reads
// them.

#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "processes/fault/speak.hpp"

namespace {

using namespace std::chrono_literals;

tutti::InitOptions way_of(const std::string& way) {
  tutti::InitOptions options;
  options.timeout = 15s;
  if (way.starts_with("tcp:") && !way.starts_with("tcp://")) {
    const auto port = static_cast<std::uint16_t>(std::stoi(way.substr(4)));
    options.store = tutti::make_tcp_store({.port = port, .timeout = 15s});
  } else if (way.starts_with("file:") && !way.starts_with("file://")) {
    options.store = tutti::make_file_store({.path = way.substr(5), .timeout = 15s});
  } else if (way != "env") {
    options.init_method = way;
  }
  return options;
}

void add_up(tutti::ProcessGroup& world) {
  std::vector<int> one{world.rank() + 1};
  world.all_reduce(one).wait();
  const int size = world.size();
  if (one[0] != size * (size + 1) / 2) throw std::runtime_error("a wrong sum");
}

/// Works until somebody is lost; who.
int lost_rank(tutti::ProcessGroup& world) {
  try {
    while (true) add_up(world);
  } catch (const tutti::NetworkError& error) {
    return error.culprit().value();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    tutti::InitOptions options = way_of(argv[1]);
    const int me = std::stoi(argv[2]);
    int rank = me;
    int size = std::stoi(argv[3]);
    for (int next = 4;; ++next) {
      options.rank = rank;
      options.size = size;
      // The same ranks meet as often as they like under one name.
      { auto first = tutti::init_process_group(options); }
      std::optional<tutti::ProcessGroup> world = tutti::init_process_group(options);
      if (next == argc) {
        add_up(*world);
        tutti::fault::say("met", "%d of %d", rank, size);
        break;
      }
      if (std::stoi(argv[next]) == me) {
        add_up(*world);
        std::raise(SIGKILL);
      }
      const int lost = lost_rank(*world);
      world.reset();
      if (rank > lost) --rank;
      --size;
      options.job_name = "after loss " + std::to_string(next - 3);
    }
  } catch (const tutti::Error& error) {
    return tutti::fault::tell(error);
  }
  tutti::fault::say("done");
  return 0;
}
