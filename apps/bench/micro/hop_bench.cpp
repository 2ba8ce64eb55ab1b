// The time of a cache line between the two cores of this machine: the bound of everything else.

#include "apps/bench/hop.hpp"

#include <benchmark/benchmark.h>

namespace {

using tutti::bench::CpuPair;

template <auto Hop>
void hop(benchmark::State& state) {
  const auto cpus = tutti::bench::first_cpu_pair();
  if (!cpus) {
    state.SkipWithError("needs two CPUs");
    return;
  }
  for (auto _ : state) {
    const auto time = Hop(*cpus, tutti::bench::HopOptions{});
    if (!time) {
      state.SkipWithError("one of the cores was taken by somebody else");
      return;
    }
    state.SetIterationTime(time->count());
  }
}

void copy_both(benchmark::State& state) {
  const auto cpus = tutti::bench::first_cpu_pair();
  if (!cpus) {
    state.SkipWithError("needs two CPUs");
    return;
  }
  const auto bytes = static_cast<std::size_t>(state.range(0));
  constexpr int kRepetitions = 10;
  for (auto _ : state) {
    const double rate = tutti::bench::copy_bandwidth(*cpus, bytes, kRepetitions);
    state.SetIterationTime(2.0 * static_cast<double>(bytes) * kRepetitions / rate);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 2 * kRepetitions);
}

BENCHMARK(hop<tutti::bench::spin_hop>)->Name("hop/spin")->UseManualTime()->Iterations(10);
BENCHMARK(hop<tutti::bench::futex_hop>)->Name("hop/futex")->UseManualTime()->Iterations(3);
BENCHMARK(copy_both)->UseManualTime()->Arg(256 << 10)->Arg(16 << 20)->Iterations(5);

}  // namespace
