// all_reduce: the buffers of all ranks are combined element by element, and everybody gets the
// result, in place. Any contiguous range of numbers is a buffer; a TensorView names memory with
// strides.
//
//   tuttirun --nproc-per-node 4 02_all_reduce

#include <cstdint>
#include <cstdio>
#include <vector>

#include <tutti/tutti.hpp>

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  const int rank = world.rank();
  const int size = world.size();

  // A sum: 1 + 2 + ... + size, and how many we are.
  std::vector<float> values{static_cast<float>(rank + 1), 1.0F};
  world.all_reduce(values).wait();

  // The largest.
  std::int64_t largest[] = {std::int64_t{rank} * rank};
  world.all_reduce(largest, {.op = tutti::ReduceOp::max}).wait();

  // Column 1 of a matrix of 3 x 2; column 0 stays as it is.
  double matrix[3][2] = {{-1, 10}, {-1, 20}, {-1, 30}};
  const std::int64_t shape[] = {3};
  const std::int64_t strides[] = {2};
  world.all_reduce(tutti::TensorView(&matrix[0][1], tutti::DType::float64, shape, strides)).wait();

  if (rank == 0) {
    std::printf("sum %g of %g ranks, largest %lld, column %g %g %g\n",
                static_cast<double>(values[0]), static_cast<double>(values[1]),
                static_cast<long long>(largest[0]), matrix[0][1], matrix[1][1], matrix[2][1]);
  }
  const bool right = values[0] == static_cast<float>(size * (size + 1) / 2) &&
                     largest[0] == std::int64_t{size - 1} * (size - 1) &&
                     matrix[2][1] == 30.0 * size && matrix[2][0] == -1;
  return right ? 0 : 1;
}
