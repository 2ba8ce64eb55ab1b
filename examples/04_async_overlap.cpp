// An operation starts when it is called. A rank that does not wait at once can compute meanwhile;
// several operations may be on their way, up to 8 per group (more are queued). The buffers must
// live and stay untouched until the Work is done.
//
//   tuttirun --nproc-per-node 2 04_async_overlap

#include <cmath>
#include <cstdio>
#include <vector>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();

  // Layers of a model, the last one ready first: its sum travels while the next is computed.
  std::vector<std::vector<float>> gradients(4, std::vector<float>(100'000));
  std::vector<tutti::Work> works;
  for (std::size_t layer = gradients.size(); layer-- > 0;) {
    for (std::size_t i = 0; i < gradients[layer].size(); ++i) {
      const double angle = static_cast<double>(i + layer);
      gradients[layer][i] = static_cast<float>(std::floor(100 * std::sin(angle)));
    }
    works.push_back(world.all_reduce(gradients[layer]));
  }
  const bool early = works.back().done();  // asks, and never waits
  tutti::wait_all(works);

  if (world.rank() == 0) {
    std::printf("the last sum was%s done when it was asked about; %zu sums are now\n",
                early ? "" : " not", works.size());
  }
  const auto expected = static_cast<float>(world.size() * std::floor(100 * std::sin(3.0 + 7.0)));
  return gradients[3][7] == expected ? 0 : 1;
}
