// broadcast: one rank's values for everybody. Anything trivially copyable can be moved, not only
// numbers: here settings that only rank 0 knows.
//
//   tuttirun --nproc-per-node 4 03_broadcast

#include <cstdio>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

struct Settings {
  int epochs;
  double learning_rate;
};

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();

  std::vector<Settings> settings(1);
  if (world.rank() == 0) settings[0] = {.epochs = 20, .learning_rate = 0.5};
  world.broadcast(settings).wait();

  // The root may be any rank.
  const int last = world.size() - 1;
  std::vector<int> ticket(1, world.rank());
  world.broadcast(ticket, {.root = last}).wait();

  std::printf("rank %d: %d epochs at %g, ticket %d\n", world.rank(), settings[0].epochs,
              settings[0].learning_rate, ticket[0]);
  return settings[0].epochs == 20 && ticket[0] == last ? 0 : 1;
}
