// The programs with tutti: tuttirun -n 3 tutti_programs

#include "programs.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

struct Programs {
  // ---- start and end
  tutti::ProcessGroup world = tutti::init_process_group();
  int rank = world.rank();
  int size = world.size();

  // ---- gradients
  void average(programs::Layers& gradients) {
    world.all_reduce_coalesced(gradients, {.op = tutti::ReduceOp::avg}).wait();
  }

  // ---- halo
  programs::Place heat(programs::Block& block, int steps) {
    tutti::CartGroup grid = tutti::cart(world, {0, 0});
    const int rows = block.rows;
    const int columns = block.columns;
    const auto row = [&](int i) {
      return tutti::TensorView(&block.at(i, 1), tutti::DType::float64, {columns}, {1});
    };
    const auto column = [&](int j) {
      return tutti::TensorView(&block.at(1, j), tutti::DType::float64, {rows}, {columns + 2});
    };
    for (int step = 0; step < steps; ++step) {
      tutti::wait_all(
          grid.neighbor_all_to_all({row(0), row(rows + 1), column(0), column(columns + 1)},
                                   {row(1), row(rows), column(1), column(columns)}));
      block.spread();
    }
    return {grid.dims()[0], grid.dims()[1], grid.coords()[0], grid.coords()[1]};
  }

  // ---- gather of unlike sizes
  tutti::Blocks<double> gather(const std::vector<double>& mine) {
    return world.gather_v(mine, {.root = 0}).wait();
  }

  // ---- broadcast of a config
  void broadcast(std::string& config) { world.broadcast_object(config, {.root = 0}); }

  // ---- sample sort
  std::vector<int> sort(const std::vector<int>& mine) {
    const std::vector<int> samples = programs::samples_of(mine);
    std::vector<int> all(samples.size() * static_cast<std::size_t>(size));
    world.all_gather(all, samples).wait();
    const auto counts = programs::counts_of<std::size_t>(mine, all, size);
    return world.all_to_all_v(mine, counts).wait().values;
  }

  // ---- overlap
  template <class Compute>
  void overlap(programs::Layers& layers, const Compute& compute) {
    std::vector<tutti::Work> works;
    for (std::size_t layer = layers.size(); layer-- > 0;) {
      compute(layer);
      works.push_back(world.all_reduce(layers[layer]));
    }
    tutti::wait_all(works);
  }

  // ---- farm
  std::vector<int> farm(int tasks) {
    if (rank != 0) {
      programs::Done done;
      while (true) {
        world.send(std::span(&done, 1), 0, {.tag = 1});
        world.recv(std::span(&done.task, 1), 0, {.tag = 2});
        if (done.task == programs::kNoTask) return {};
        done.result = programs::result_of(done.task);
      }
    }
    std::vector<int> results(static_cast<std::size_t>(tasks));
    int next = 0;
    for (int workers = size - 1; workers > 0;) {
      programs::Done done;
      const int worker = world.recv(std::span(&done, 1), tutti::any_source, {.tag = 1});
      if (done.task != programs::kNoTask)
        results[static_cast<std::size_t>(done.task)] = done.result;
      const int task = next < tasks ? next++ : programs::kNoTask;
      world.send(std::span(&task, 1), worker, {.tag = 2});
      if (task == programs::kNoTask) --workers;
    }
    for (; next < tasks; ++next)
      results[static_cast<std::size_t>(next)] = programs::result_of(next);
    return results;
  }
  // ---- end
};

}  // namespace

int main() {
  Programs on;
  return programs::run(on);
}
