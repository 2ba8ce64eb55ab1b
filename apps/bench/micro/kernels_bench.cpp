// The cost of local reductions and copies: a few nanoseconds for a few elements, the speed of the
// cache or the memory for many.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/copy.hpp"
#include "kernels/pack.hpp"
#include "kernels/reduce.hpp"

namespace {

using namespace tutti::kernels;
using tutti::DType;
using tutti::ReduceOp;
using tutti::TensorView;

/// Arrays of zeros that were touched, at distances that do not fall on the same cache sets.
class Rows {
 public:
  Rows(int k, std::size_t bytes) : memory_(static_cast<std::size_t>(k + 1) * stride(bytes) + 64) {
    void* start = memory_.data();
    std::size_t space = memory_.size();
    auto* at = static_cast<std::byte*>(std::align(64, 1, start, space));
    for (int j = 0; j < k; ++j)
      sources_.push_back(at + static_cast<std::size_t>(j) * stride(bytes));
    dst_ = at + static_cast<std::size_t>(k) * stride(bytes);
  }
  [[nodiscard]] const void* const* sources() const { return sources_.data(); }
  [[nodiscard]] void* dst() const { return dst_; }

 private:
  static std::size_t stride(std::size_t bytes) { return (bytes + 63) / 64 * 64 + 192; }
  std::vector<std::byte> memory_;
  std::vector<const void*> sources_;
  void* dst_ = nullptr;
};

/// Arguments: sources, bytes of each. Bytes per second count every byte loaded and stored.
void reduce(benchmark::State& state, ReduceFn function, DType dtype) {
  const auto k = static_cast<int>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const Rows rows(k, bytes);
  for (auto _ : state) {
    function(rows.dst(), rows.sources(), k, bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (k + 1) * state.range(1));
}

void small_sizes(benchmark::internal::Benchmark* b) {
  for (const int k : {2, 3, 4, 5, 6, 7, 8, 16}) b->Args({k, 8});
  for (const int k : {2, 8}) {
    for (const int bytes : {4, 24, 48, 256, 4096}) b->Args({k, bytes});
  }
}

void large_sizes(benchmark::internal::Benchmark* b) {
  for (const int k : {2, 8, 16}) {
    for (const int bytes : {64 << 10, 16 << 20}) b->Args({k, bytes});
  }
}

void reduce_float(benchmark::State& state) {
  reduce(state, find_reduce(ReduceOp::sum, DType::float32), DType::float32);
}
void reduce_float_nt(benchmark::State& state) {
  reduce(state, find_reduce_nt(ReduceOp::sum, DType::float32), DType::float32);
}
void reduce_max_float(benchmark::State& state) {
  reduce(state, find_reduce(ReduceOp::max, DType::float32), DType::float32);
}
void reduce_int64(benchmark::State& state) {
  reduce(state, find_reduce(ReduceOp::sum, DType::int64), DType::int64);
}
template <DType kType>
void reduce_as(benchmark::State& state) {
  reduce(state, find_reduce(ReduceOp::sum, kType), kType);
}
template <DType kType>
void average_as(benchmark::State& state) {
  static const AverageFn average = find_average(kType);
  const auto function = [](void* dst, const void* const* sources, int k, std::size_t count) {
    average(dst, sources, k, count, 3);
  };
  reduce(state, function, kType);
}
void find(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(find_reduce(ReduceOp::sum, DType::float32));
}

template <auto Copy>
void copy_bytes(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Rows rows(1, bytes);
  for (auto _ : state) {
    Copy(rows.dst(), rows.sources()[0], bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));
}

/// A column block of a matrix of floats; the argument is its width.
void pack_columns(benchmark::State& state) {
  const std::int64_t width = state.range(0);
  const std::int64_t rows = (64 << 10) / width;
  const std::int64_t pitch = width * 2 + 1;
  std::vector<float> matrix(static_cast<std::size_t>(rows * pitch));
  std::vector<float> packed(static_cast<std::size_t>(rows * width));
  const std::int64_t shape[] = {rows, width};
  const std::int64_t strides[] = {pitch, 1};
  const TensorView view(matrix.data(), DType::float32, shape, strides);
  for (auto _ : state) {
    pack(packed.data(), view, 0, view.count());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(view.size_bytes()) * 2);
}

BENCHMARK(find);
BENCHMARK(reduce_float)->Apply(small_sizes)->Apply(large_sizes);
BENCHMARK(reduce_float_nt)->Apply(large_sizes);
BENCHMARK(reduce_max_float)->Args({2, 8})->Args({8, 8})->Apply(large_sizes);
BENCHMARK(reduce_int64)->Args({2, 8})->Args({8, 8})->Args({2, 64 << 10});
void some_sizes(benchmark::internal::Benchmark* b) {
  for (const int k : {2, 8}) {
    for (const int bytes : {8, 4 << 10, 64 << 10, 16 << 20}) b->Args({k, bytes});
  }
}
BENCHMARK(reduce_as<DType::float32>)->Name("sum_float32")->Apply(some_sizes);
BENCHMARK(reduce_as<DType::float16>)->Name("sum_float16")->Apply(some_sizes);
BENCHMARK(reduce_as<DType::bfloat16>)->Name("sum_bfloat16")->Apply(some_sizes);
BENCHMARK(reduce_as<DType::float8_e4m3>)->Name("sum_float8_e4m3")->Apply(some_sizes);
BENCHMARK(reduce_as<DType::float8_e5m2>)->Name("sum_float8_e5m2")->Apply(some_sizes);
BENCHMARK(average_as<DType::float32>)->Name("average_float32")->Apply(some_sizes);
BENCHMARK(average_as<DType::bfloat16>)->Name("average_bfloat16")->Apply(some_sizes);
BENCHMARK(average_as<DType::int32>)->Name("average_int32")->Args({2, 64 << 10});
BENCHMARK(copy_bytes<&copy>)->Name("copy")->Arg(8)->Arg(64 << 10)->Arg(16 << 20);
BENCHMARK(copy_bytes<&copy_in_runs>)->Name("copy_in_runs")->Arg(64 << 10)->Arg(16 << 20);
BENCHMARK(copy_bytes<&copy_nt>)->Name("copy_nt")->Arg(64 << 10)->Arg(16 << 20);
BENCHMARK(pack_columns)->Arg(1)->Arg(2)->Arg(16)->Arg(1024);

}  // namespace
