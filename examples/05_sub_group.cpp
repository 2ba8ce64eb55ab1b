// Sub-groups: some ranks among themselves, numbered anew from 0. Every rank of the parent calls
// new_group with the same list; those that are not in it get nothing. A sub-group opens no
// connection and starts no thread.
//
//   tuttirun --nproc-per-node 4 05_sub_group

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();

  std::vector<int> even;
  for (int rank = 0; rank < world.size(); rank += 2) even.push_back(rank);
  tutti::ProcessGroup group = world.new_group(even, {.name = "even"});

  if (group) {
    std::vector<int> sum{world.rank()};
    group.all_reduce(sum).wait();
    std::printf("world rank %d is rank %d of group '%s': sum of its world ranks %d\n", world.rank(),
                group.rank(), std::string(group.name()).c_str(), sum[0]);
    if (sum[0] != std::accumulate(even.begin(), even.end(), 0)) return 1;
  }
  world.barrier().wait();  // the world works as before
}
