// Point to point: one rank sends, another receives, the rest does nothing. Small messages may be
// sent before their recv is called; what does not have to wait uses isend and irecv.
//
//   tuttirun --nproc-per-node 3 08_send_recv

#include <cstdio>
#include <vector>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();

  // Blocking: everybody sends to the right first. A few numbers need nobody's recv for that.
  const std::vector<int> greeting{world.rank(), 42};
  std::vector<int> heard(2);
  world.send(greeting, next, {.tag = 1});
  world.recv(heard, before, {.tag = 1});

  // Asynchronous: more than 64 KiB wait for their recv, so neither side may wait first.
  const std::vector<double> block(1'000'000, world.rank());
  std::vector<double> theirs(block.size());
  tutti::Work sending = world.isend(block, next);
  tutti::Work receiving = world.irecv(theirs, before);
  receiving.wait();
  sending.wait();

  // Rank 0 takes reports in the order in which they come.
  bool right = heard[0] == before && heard[1] == 42 && theirs.back() == before;
  if (world.rank() != 0) {
    world.send(heard, 0, {.tag = 2});
  } else {
    for (int i = 1; i < world.size(); ++i) {
      std::vector<int> report(2);
      const int source = world.recv(report, tutti::any_source, {.tag = 2});
      right = right && report[0] == source - 1;
    }
    std::printf("%d ranks in a ring, all reports are in\n", world.size());
  }
  return right ? 0 : 1;
}
