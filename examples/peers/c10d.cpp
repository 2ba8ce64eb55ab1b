// The programs with c10d, the library of torch.distributed in C++, on Gloo. The argument is a new
// file, by which the ranks meet: tuttirun -n 3 c10d_programs /tmp/new-file

#include "programs.hpp"

#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

struct Programs {
  // ---- start and end
  int rank = std::atoi(std::getenv("RANK"));
  int size = std::atoi(std::getenv("WORLD_SIZE"));
  c10::intrusive_ptr<c10d::ProcessGroupGloo> world;
  explicit Programs(const char* file) {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
    auto store = c10::make_intrusive<c10d::FileStore>(file, size);
    world = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  }
  template <class T>
  static at::Tensor view(const std::vector<T>& values) {
    return torch::from_blob(const_cast<T*>(values.data()),
                            {static_cast<std::int64_t>(values.size())},
                            torch::CppTypeToScalarType<T>::value);
  }

  // ---- gradients
  void average(programs::Layers& gradients) {
    std::vector<at::Tensor> tensors;
    for (std::vector<float>& layer : gradients) tensors.push_back(view(layer));
    world->allreduce_coalesced(tensors)->wait();
    for (at::Tensor& tensor : tensors) tensor.div_(size);
  }

  // ---- halo
  programs::Place heat(programs::Block& block, int steps) {
    int high = 1;
    for (int i = 2; i * i <= size; ++i) high = size % i == 0 ? i : high;
    const int wide = size / high;
    const int row = rank / wide;
    const int column = rank % wide;
    const at::Tensor cells = view(block.cells).view({block.rows + 2, block.columns + 2});
    const auto inner = torch::indexing::Slice(1, -1);
    struct Side {
      int peer;
      at::Tensor halo;
      at::Tensor edge;
    };
    std::vector<Side> sides;
    if (row > 0) sides.push_back({rank - wide, cells.index({0, inner}), cells.index({1, inner})});
    if (row + 1 < high)
      sides.push_back({rank + wide, cells.index({-1, inner}), cells.index({-2, inner})});
    if (column > 0) sides.push_back({rank - 1, cells.index({inner, 0}), cells.index({inner, 1})});
    if (column + 1 < wide)
      sides.push_back({rank + 1, cells.index({inner, -1}), cells.index({inner, -2})});
    for (int step = 0; step < steps; ++step) {
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      std::vector<at::Tensor> arrived;
      for (const Side& side : sides) {
        std::vector<at::Tensor> sent{side.edge.contiguous()};
        std::vector<at::Tensor> received{at::empty_like(sent[0])};
        works.push_back(world->send(sent, side.peer, 0));
        works.push_back(world->recv(received, side.peer, 0));
        arrived.push_back(received[0]);
      }
      for (const auto& work : works) work->wait();
      for (std::size_t i = 0; i < sides.size(); ++i) sides[i].halo.copy_(arrived[i]);
      block.spread();
    }
    return {high, wide, row, column};
  }

  // ---- gather of unlike sizes
  programs::Gathered<double, std::int64_t> gather(const std::vector<double>& mine) {
    programs::Gathered<double, std::int64_t> all;
    const std::vector<std::int64_t> count{static_cast<std::int64_t>(mine.size())};
    all.counts.resize(static_cast<std::size_t>(size));
    at::Tensor counts = view(all.counts);
    at::Tensor own = view(count);
    world->_allgather_base(counts, own)->wait();
    std::vector<std::int64_t> to(static_cast<std::size_t>(size), 0);
    std::vector<std::int64_t> from(to);
    to[0] = count[0];
    if (rank == 0) from = all.counts;
    all.values.resize(rank == 0 ? static_cast<std::size_t>(counts.sum().item<std::int64_t>()) : 0);
    at::Tensor output = view(all.values);
    at::Tensor input = view(mine);
    world->alltoall_base(output, input, from, to)->wait();
    return all;
  }

  // ---- broadcast of a config
  void broadcast(std::string& config) {
    std::vector<at::Tensor> length{torch::tensor({static_cast<std::int64_t>(config.size())})};
    world->broadcast(length)->wait();
    config.resize(static_cast<std::size_t>(length[0].item<std::int64_t>()));
    std::vector<at::Tensor> text{
        torch::from_blob(config.data(), {length[0].item<std::int64_t>()}, torch::kUInt8)};
    world->broadcast(text)->wait();
  }

  // ---- sample sort
  std::vector<int> sort(const std::vector<int>& mine) {
    const std::vector<int> samples = programs::samples_of(mine);
    std::vector<int> all(samples.size() * static_cast<std::size_t>(size));
    at::Tensor all_samples = view(all);
    at::Tensor own_samples = view(samples);
    world->_allgather_base(all_samples, own_samples)->wait();
    auto to = programs::counts_of<std::int64_t>(mine, all, size);
    std::vector<std::int64_t> from(to.size());
    std::vector<std::int64_t> even;
    at::Tensor from_counts = view(from);
    at::Tensor to_counts = view(to);
    world->alltoall_base(from_counts, to_counts, even, even)->wait();
    std::vector<int> sorted(static_cast<std::size_t>(from_counts.sum().item<std::int64_t>()));
    at::Tensor output = view(sorted);
    at::Tensor input = view(mine);
    world->alltoall_base(output, input, from, to)->wait();
    return sorted;
  }

  // ---- overlap
  template <class Compute>
  void overlap(programs::Layers& layers, const Compute& compute) {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (std::size_t layer = layers.size(); layer-- > 0;) {
      compute(layer);
      std::vector<at::Tensor> tensor{view(layers[layer])};
      works.push_back(world->allreduce(tensor));
    }
    for (const auto& work : works) work->wait();
  }

  // ---- farm
  std::vector<int> farm(int tasks) {
    std::vector<at::Tensor> done{torch::tensor({programs::kNoTask, 0}, torch::kInt32)};
    std::vector<at::Tensor> next_task{torch::tensor({0}, torch::kInt32)};
    if (rank != 0) {
      while (true) {
        world->send(done, 0, 1)->wait();
        world->recv(next_task, 0, 2)->wait();
        const int task = next_task[0].item<int>();
        if (task == programs::kNoTask) return {};
        done[0] = torch::tensor({task, programs::result_of(task)}, torch::kInt32);
      }
    }
    std::vector<int> results(static_cast<std::size_t>(tasks));
    int next = 0;
    for (int workers = size - 1; workers > 0;) {
      const auto receiving = world->recvAnysource(done, 1);
      receiving->wait();
      const int task = done[0][0].item<int>();
      if (task != programs::kNoTask)
        results[static_cast<std::size_t>(task)] = done[0][1].item<int>();
      next_task[0].fill_(next < tasks ? next : programs::kNoTask);
      world->send(next_task, receiving->sourceRank(), 2)->wait();
      if (next++ >= tasks) --workers;
    }
    for (; next < tasks; ++next)
      results[static_cast<std::size_t>(next)] = programs::result_of(next);
    return results;
  }
  // ---- end
};

}  // namespace

int main(int, char** argv) {
  Programs on(argv[1]);
  return programs::run(on);
}
