#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "kernels/narrow.hpp"
#include "kernels/reduce.hpp"
#include "support/rotation.hpp"

// Every dtype with every reduce op, through the whole path. The values are small whole numbers
// whose results every dtype holds exactly, so they are compared as bytes.
namespace tutti {
namespace {

constexpr int kOps = 9;
constexpr std::size_t kCount = 48;  // of a block: divides evenly among up to 8 ranks

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

void encode(std::byte* to, double value, DType dtype) {
  if (kernels::is_narrow(dtype)) {
    const auto wide = static_cast<float>(value);
    kernels::find_narrow(dtype)(to, &wide, 1);
    return;
  }
  switch (dtype) {
    case DType::bool_: return put(to, value != 0);
    case DType::uint8: return put(to, static_cast<std::uint8_t>(value));
    case DType::int8: return put(to, static_cast<std::int8_t>(value));
    case DType::uint16: return put(to, static_cast<std::uint16_t>(value));
    case DType::int16: return put(to, static_cast<std::int16_t>(value));
    case DType::uint32: return put(to, static_cast<std::uint32_t>(value));
    case DType::int32: return put(to, static_cast<std::int32_t>(value));
    case DType::uint64: return put(to, static_cast<std::uint64_t>(value));
    case DType::int64: return put(to, static_cast<std::int64_t>(value));
    case DType::float32: return put(to, static_cast<float>(value));
    case DType::float64: return put(to, value);
    case DType::complex64: return put(to, std::complex<float>(static_cast<float>(value)));
    default: return put(to, std::complex<double>(value));
  }
}

/// 0 or 1, by rank and element; whoever multiplies or ands gets both results.
double value(int rank, std::size_t i) {
  return (i * 7 + static_cast<std::size_t>(rank) * (i % 3)) % 4 == 0 ? 0 : 1;
}

/// AVG: all ranks give the same, so that the mean is exact.
double given(ReduceOp op, int rank, std::size_t i) {
  return value(op == ReduceOp::avg ? 0 : rank, i);
}

double expected(ReduceOp op, DType dtype, int size, std::size_t i) {
  double sum = 0;
  double product = 1;
  double most = 0;
  double least = 1;
  int ones = 0;
  for (int r = 0; r < size; ++r) {
    const double one = given(op, r, i);
    sum += one;
    product *= one;
    most = std::max(most, one);
    least = std::min(least, one);
    ones += one != 0 ? 1 : 0;
  }
  switch (op) {
    case ReduceOp::sum: return dtype == DType::bool_ ? most : sum;
    case ReduceOp::avg: return sum / size;
    case ReduceOp::product: return product;
    case ReduceOp::min:
    case ReduceOp::band: return least;
    case ReduceOp::max:
    case ReduceOp::bor: return most;
    case ReduceOp::bxor: return ones % 2;
    default: return 2 * sum;  // each multiplies by 2
  }
}

std::vector<std::byte> encoded(DType dtype, std::size_t count, const auto& value_at) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i)
    encode(bytes.data() + i * size_of(dtype), value_at(i), dtype);
  return bytes;
}

/// One pair through scans, which are all_reduces of the ranks up to each.
void run_scans(ProcessGroup& world, ReduceOp op, DType dtype, const std::vector<std::byte>& mine,
               std::optional<double> factor) {
  for (const bool exclusive : {false, true}) {
    std::vector<std::byte> buffer = mine;
    world
        .scan(TensorView(buffer.data(), dtype, kCount),
              {.op = op, .exclusive = exclusive, .factor = factor})
        .wait();
    const int ranks = world.rank() + (exclusive ? 0 : 1);
    const auto result =
        encoded(dtype, kCount, [&](std::size_t i) { return expected(op, dtype, ranks, i); });
    EXPECT_EQ(buffer, ranks > 0 ? result : mine)
        << (exclusive ? "exclusive_scan, " : "scan, ") << to_string(op) << " of "
        << to_string(dtype) << ", rank " << world.rank() << " of " << world.size();
  }
}

/// One pair through all_reduce, reduce, reduce_scatter and scans.
void run_pair(ProcessGroup& world, ReduceOp op, DType dtype) {
  const int size = world.size();
  const auto ranks = static_cast<std::size_t>(size);
  const std::string name = std::string(to_string(op)) + " of " + std::string(to_string(dtype));
  const auto mine =
      encoded(dtype, kCount, [&](std::size_t i) { return given(op, world.rank(), i); });
  const auto result =
      encoded(dtype, kCount, [&](std::size_t i) { return expected(op, dtype, size, i); });
  const std::optional<double> factor =
      op == ReduceOp::premul_sum ? std::optional<double>(2) : std::nullopt;

  std::vector<std::byte> buffer = mine;
  world.all_reduce(TensorView(buffer.data(), dtype, kCount), {.op = op, .factor = factor}).wait();
  EXPECT_EQ(buffer, result) << "all_reduce, " << name << ", " << size << " ranks";

  buffer = mine;
  const int root = size - 1;
  world.reduce(TensorView(buffer.data(), dtype, kCount), {.root = root, .op = op, .factor = factor})
      .wait();
  EXPECT_EQ(buffer, world.rank() == root ? result : mine) << "reduce, " << name;

  run_scans(world, op, dtype, mine, factor);

  const std::size_t block = kCount / ranks;
  std::vector<std::byte> part(block * size_of(dtype));
  std::vector<std::byte> all = mine;
  world
      .reduce_scatter(TensorView(part.data(), dtype, block),
                      TensorView(all.data(), dtype, block * ranks), {.op = op, .factor = factor})
      .wait();
  const auto first = result.begin() + static_cast<std::ptrdiff_t>(
                                          static_cast<std::size_t>(world.rank()) * part.size());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), first)) << "reduce_scatter, " << name;
}

void run_all_pairs(ProcessGroup& world) {
  for (int o = 0; o < kOps; ++o) {
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto op = static_cast<ReduceOp>(o);
      const auto dtype = static_cast<DType>(d);
      if (kernels::is_supported(op, dtype)) {
        run_pair(world, op, dtype);
        continue;
      }
      std::vector<std::byte> buffer(size_of(dtype));
      try {
        const std::optional<double> factor =
            op == ReduceOp::premul_sum ? std::optional<double>(2) : std::nullopt;
        world.all_reduce(TensorView(buffer.data(), dtype, 1), {.op = op, .factor = factor}).wait();
        ADD_FAILURE() << to_string(op) << " of " << to_string(dtype) << " was taken";
      } catch (const InvalidArgument&) {
      }
    }
  }
}

class ReduceOps : public testing::TestWithParam<int> {};

TEST_P(ReduceOps, OfEveryDTypeAreRight) { run_threads(GetParam(), run_all_pairs); }

TEST_P(ReduceOps, OfEveryDTypeAreRightOverTcp) {
  Config config;
  config.transport = Config::TransportChoice::tcp;
  run_threads(GetParam(), run_all_pairs, config);
}

TEST_P(ReduceOps, NarrowFloatsAreRoundedOnce) {
  // 1 + P * 2^-9 in bfloat16 (8 bits): each addend alone is rounded away, all together are not.
  const int size = GetParam();
  run_threads(size, [&](ProcessGroup& world) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{700}, std::size_t{40'000}}) {
      const float big = 1;
      const float small = 0.001953125F;  // 2^-9
      float sum = 0;
      for (int r = 0; r < size; ++r) sum += r == 0 ? big : small;
      std::uint16_t bits = 0;
      std::uint16_t whole = 0;
      kernels::find_narrow(DType::bfloat16)(&bits, world.rank() == 0 ? &big : &small, 1);
      kernels::find_narrow(DType::bfloat16)(&whole, &sum, 1);
      std::vector<std::uint16_t> data(count, bits);
      world.all_reduce(TensorView(data.data(), DType::bfloat16, count)).wait();
      EXPECT_EQ(data, std::vector<std::uint16_t>(count, whole)) << size << " ranks";

      sum = big;
      for (int r = 1; r <= world.rank(); ++r) sum += small;
      kernels::find_narrow(DType::bfloat16)(&whole, &sum, 1);
      std::fill(data.begin(), data.end(), bits);
      world.scan(TensorView(data.data(), DType::bfloat16, count)).wait();
      EXPECT_EQ(data, std::vector<std::uint16_t>(count, whole)) << "scan, " << size << " ranks";
    }
  });
}

TEST_P(ReduceOps, FactorsMayDifferBetweenElementsAndRanks) {
  run_threads(GetParam(), [&](ProcessGroup& world) {
    std::vector<float> data{1, 2, 3};
    std::vector<float> factors{1, 10, static_cast<float>(world.rank())};
    world.all_reduce(data, {.op = ReduceOp::premul_sum, .factors = view_of(factors)}).wait();
    const auto n = static_cast<float>(world.size());
    EXPECT_EQ(data, (std::vector<float>{n, 20 * n, 3 * n * (n - 1) / 2}));
  });
}

TEST_P(ReduceOps, FactorsMayHaveStrides) {
  run_threads(GetParam(), [](ProcessGroup& world) {
    // Two rows out of three, from the last element to the first: more than one block of a pass.
    constexpr std::int64_t kRow = 3001;
    const std::int64_t shape[] = {2, kRow};
    const std::int64_t strides[] = {2 * kRow, -1};
    std::vector<float> memory(3 * kRow);
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory[i] = static_cast<float>((i % 50 + 1) * static_cast<std::size_t>(world.rank() + 1));
    const TensorView factors(&memory[kRow - 1], DType::float32, shape, strides);
    std::vector<float> data(2 * kRow, 2);
    world.all_reduce(data, {.op = ReduceOp::premul_sum, .factors = factors}).wait();
    const auto ranks = static_cast<std::size_t>(world.size());
    std::vector<float> want;
    for (const std::size_t row : {0, 2}) {
      for (std::size_t i = 0; i < kRow; ++i) {
        const std::size_t place = row * kRow + (kRow - 1 - i);
        want.push_back(static_cast<float>(2 * (place % 50 + 1) * ranks * (ranks + 1) / 2));
      }
    }
    EXPECT_EQ(data, want);
    // One value for all by a stride of 0: factors are only read.
    const std::int64_t none[] = {0, 0};
    world
        .all_reduce(data, {.op = ReduceOp::premul_sum,
                           .factors = TensorView(memory.data(), DType::float32, shape, none)})
        .wait();
    for (float& value : want) value *= static_cast<float>(ranks * (ranks + 1) / 2);
    EXPECT_EQ(data, want);
  });
}

TEST_P(ReduceOps, NoElementsHaveNoFactors) {
  run_threads(GetParam(), [](ProcessGroup& world) {
    std::vector<float> none;
    const AllReduceOptions each{.op = ReduceOp::premul_sum, .factors = view_of(none)};
    world.all_reduce(none, each).wait();
    world.reduce(none, {.op = ReduceOp::premul_sum, .factors = view_of(none)}).wait();
    world.reduce_scatter(none, none, {.op = ReduceOp::premul_sum, .factors = view_of(none)}).wait();
    const std::vector<TensorView> two(2, view_of(none));
    world.all_reduce_coalesced(two, each).wait();
    std::vector<float> some(3);
    EXPECT_THROW(world.all_reduce(some, each).wait(), InvalidArgument);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ReduceOps, testing::ValuesIn(test::world_sizes()));

}  // namespace
}  // namespace tutti
