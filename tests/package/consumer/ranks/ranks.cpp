// A program of several ranks, as a project compiles it that wants no exceptions.

#include <cstdio>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  std::vector<int> values(1000, world.rank() + 1);
  world.all_reduce(values).wait();
  std::printf("%d on %s\n", values.back(), std::string(world.backend()).c_str());
  return values.front() == values.back() ? 0 : 1;
}
