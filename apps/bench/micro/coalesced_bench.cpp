// Many tensors: a call for each, waited for one by one or all at the end, against one coalesced
// call. Two ranks as threads; arguments: tensors, floats in each, TCP or not.

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>
#include <tutti/tutti.hpp>

namespace tutti {
namespace {

enum class Way { one_by_one, all_started, coalesced };

template <Way way>
void all_reduce_of(benchmark::State& state) {
  const auto tensors = static_cast<std::size_t>(state.range(0));
  const auto floats = static_cast<std::size_t>(state.range(1));
  Config config;
  if (state.range(2) != 0) config.transport = Config::TransportChoice::tcp;
  run_threads(
      2,
      [&](ProcessGroup& world) {
        std::vector<std::vector<float>> memory(tensors, std::vector<float>(floats));
        std::vector<TensorView> views;
        for (auto& one : memory) views.emplace_back(one);
        std::vector<Work> works(tensors);
        const auto step = [&] {
          if constexpr (way == Way::coalesced) {
            world.all_reduce_coalesced(views, {.op = ReduceOp::max}).wait();
          } else {
            for (std::size_t t = 0; t < tensors; ++t) {
              works[t] = world.all_reduce(views[t], {.op = ReduceOp::max});
              if constexpr (way == Way::one_by_one) works[t].wait();
            }
            wait_all(works);
          }
        };
        // A step more, with another first value, tells the other rank that it was the last.
        const float last = 1;
        if (world.rank() == 0) {
          for (auto _ : state) step();
          memory[0][0] = last;
          step();
        } else {
          do {
            step();
          } while (memory[0][0] != last);
        }
      },
      config);
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int tcp : {0, 1}) {
    bench->Args({100, 16, tcp});
    bench->Args({100, 1024, tcp});
    bench->Args({1000, 64, tcp});
    bench->Args({8, 1 << 20, tcp});
    bench->Args({1, 8 << 20, tcp});  // as much in one tensor
  }
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(all_reduce_of<Way::one_by_one>)->Apply(sizes);
BENCHMARK(all_reduce_of<Way::all_started>)->Apply(sizes);
BENCHMARK(all_reduce_of<Way::coalesced>)->Apply(sizes);

}  // namespace
}  // namespace tutti
