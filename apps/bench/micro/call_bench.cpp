// The parts of the smallest operation, one for each line of bench/notes/small-calls.md.

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>
#include <tutti/tutti.hpp>

#include "backend/native/driver_lock.hpp"
#include "call/call_check.hpp"
#include "call/call_code.hpp"
#include "engine/plan_cache.hpp"

namespace tutti {
namespace {

Collective small_call(std::vector<float>& buffer) {
  Collective call;
  call.kind = Kind::all_reduce;
  call.input = buffer;
  call.output = call.input;
  return call;
}

// Facade: range -> view -> Collective.
void call_as_value(benchmark::State& state) {
  std::vector<float> buffer(2);
  for (auto _ : state) {
    Collective call = small_call(buffer);
    benchmark::DoNotOptimize(call);
  }
}
BENCHMARK(call_as_value);

// The checks of its arguments.
void argument_checks(benchmark::State& state) {
  std::vector<float> buffer(2);
  const Collective call = small_call(buffer);
  for (auto _ : state) {
    const std::string wrong = call::what_is_wrong(call, 0, 2);
    benchmark::DoNotOptimize(wrong.empty());
  }
}
BENCHMARK(argument_checks);

// Number it, fingerprint it.
void fingerprint(benchmark::State& state) {
  std::vector<float> buffer(2);
  const call::CallCode code =
      call::encode(small_call(buffer), call::extent_of(small_call(buffer), 0, 1));
  std::uint64_t chain = 1;
  for (auto _ : state) {
    chain = call::chain(chain, code);
    benchmark::DoNotOptimize(chain);
  }
}
BENCHMARK(fingerprint);

// Plan: the schedule of the last call with the same key.
void plan_hit(benchmark::State& state) {
  std::vector<float> buffer(2);
  const Collective call = small_call(buffer);
  engine::PlanCache plans(0, plan::make_topology({0, 0}), 2, "");
  for (auto _ : state) {
    const engine::BoundPlan* bound = &plans.find(call);
    benchmark::DoNotOptimize(bound);
  }
}
BENCHMARK(plan_hit);

// The right to drive, taken and given back; a blocking call does it twice.
void token(benchmark::State& state) {
  native::DriverLock token;
  for (auto _ : state) {
    token.lock();
    token.unlock();
  }
}
BENCHMARK(token);

// Everything but the hop: a blocking all_reduce of 8 bytes in a world of one.
void all_reduce_alone(benchmark::State& state) {
  run_threads(1, [&](ProcessGroup& world) {
    std::vector<float> buffer(2);
    for (auto _ : state) world.all_reduce(buffer).wait();
  });
}
BENCHMARK(all_reduce_alone);

// Everything: two ranks as threads. `./dev bench` measures processes.
void all_reduce_of_two(benchmark::State& state) {
  run_threads(2, [&](ProcessGroup& world) {
    std::vector<float> buffer(2);
    const float last = 1;  // the second element says whether there is another round
    if (world.rank() == 0) {
      for (auto _ : state) world.all_reduce(buffer, {.op = ReduceOp::max}).wait();
      buffer[1] = last;
      world.all_reduce(buffer, {.op = ReduceOp::max}).wait();
    } else {
      do {
        world.all_reduce(buffer, {.op = ReduceOp::max}).wait();
      } while (buffer[1] != last);
    }
  });
}
BENCHMARK(all_reduce_of_two)->UseRealTime();

}  // namespace
}  // namespace tutti
