#include "cuda/kernels/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/reduce.hpp"
#include "support/host_kernels.hpp"

// The functions that kernels of GPUs are made of, run on the host: their bits are those of the
// kernels of the CPU.
namespace tutti::cuda::kernels {
namespace {

using Row = std::vector<std::byte>;

/// Of any bits, in memory that is aligned as a GPU's is. Some equal to those of the row before,
/// so that sums cancel and zeros of both signs meet.
std::vector<Row> random_rows(int k, std::size_t bytes, std::mt19937_64& random) {
  std::vector<Row> rows(static_cast<std::size_t>(k), Row(bytes));
  for (Row& row : rows) {
    for (std::byte& byte : row) byte = static_cast<std::byte>(random());
    for (std::size_t at = 0; at + 16 <= bytes; at += 16) {
      if (&row != &rows[0] && random() % 8 == 0)
        std::memcpy(row.data() + at, (&row - 1)->data() + at, 16);
      if (random() % 16 == 0) std::memset(row.data() + at, random() % 2 == 0 ? 0 : 0xff, 16);
      if (random() % 16 == 0) row[at + 1] = row[at + 3] = row[at + 7] = std::byte{0x80};
    }
  }
  return rows;
}

void compare(ReduceOp op, DType dtype, int k, std::size_t count, std::mt19937_64& random) {
  SCOPED_TRACE(std::string(to_string(op)) + " of " + std::string(to_string(dtype)) + ", k " +
               std::to_string(k) + ", count " + std::to_string(count));
  const auto kernel = kernel_of(op, dtype);
  ASSERT_TRUE(kernel.has_value());
  const HostKernel run = host_kernel(kernel->name);
  ASSERT_NE(run, nullptr) << kernel->name;
  const std::size_t bytes = count * size_of(dtype);
  std::vector<Row> rows = random_rows(k, bytes, random);
  std::vector<const void*> sources;
  ReduceArguments all;
  for (Row& row : rows) {
    all.sources[sources.size()] = row.data();
    sources.push_back(row.data());
  }
  all.k = k;
  all.count = count * kernel->per_count;
  all.divisor = k + 1;
  Row wanted(bytes);
  if (op == ReduceOp::avg)
    tutti::kernels::find_average(dtype)(wanted.data(), sources.data(), k, count, k + 1);
  else
    tutti::kernels::find_reduce(op, dtype)(wanted.data(), sources.data(), k, count);
  all.to = rows[0].data();  // one of the sources
  run(all);
  if (rows[0] == wanted) return;
  const auto [ours, theirs] = std::ranges::mismatch(rows[0], wanted);
  ADD_FAILURE() << "byte " << ours - rows[0].begin() << " is " << static_cast<int>(*ours)
                << " and not " << static_cast<int>(*theirs);
}

TEST(CudaKernels, HaveTheBitsOfThoseOfTheCpu) {
  std::mt19937_64 random(7);
  int pairs = 0;
  for (int o = 0; o < kReduceOpCount; ++o) {
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto op = static_cast<ReduceOp>(o);
      const auto dtype = static_cast<DType>(d);
      const bool there = op != ReduceOp::premul_sum && tutti::kernels::is_supported(op, dtype);
      EXPECT_EQ(kernel_of(op, dtype).has_value(), there) << to_string(op) << to_string(dtype);
      if (!there) continue;
      ++pairs;
      const bool copies = op != ReduceOp::avg && dtype != DType::bool_;
      for (int k = copies ? 2 : 1; k <= 20; ++k) compare(op, dtype, k, 333, random);
      compare(op, dtype, 64, 100, random);
      compare(op, dtype, 3, 40'000, random);  // of 16 bits all, most likely
      for (std::size_t count = 0; count < 20; ++count) compare(op, dtype, 5, count, random);
    }
  }
  EXPECT_EQ(pairs, 107);
}

/// The arguments of a kernel that scales.
struct Scaled {
  std::int64_t step = 0;  ///< between factors
  bool of_host = false;   ///< one factor, which comes with the parameter
  bool in_place = false;
  std::size_t to = 0;    ///< where it begins, in elements
  std::size_t from = 0;  ///< where these begin, in bytes
  std::size_t factors = 0;
};

void compare_scaled(DType dtype, std::size_t count, const Scaled& one, std::mt19937_64& random) {
  SCOPED_TRACE(std::string(to_string(dtype)) + " x " + std::to_string(count) + ", step " +
               std::to_string(one.step) + ", to " + std::to_string(one.to) + ", from " +
               std::to_string(one.from) + ", factors " + std::to_string(one.factors));
  const auto kernel = scale_kernel_of(dtype);
  ASSERT_TRUE(kernel.has_value());
  EXPECT_EQ(kernel->per_count, 1U);
  const HostKernel run = host_kernel(kernel->name);
  ASSERT_NE(run, nullptr) << kernel->name;
  const std::size_t element = size_of(dtype);
  ASSERT_EQ(host_kernel_bytes(kernel->name), element);
  const auto distance = static_cast<std::size_t>(one.step < 0 ? -one.step : one.step);
  constexpr std::size_t kRoom = 64;
  std::vector<Row> rows =
      random_rows(3, (count * std::max<std::size_t>(distance, 1)) * element + kRoom, random);
  const std::byte* const from =
      one.in_place ? rows[0].data() + one.to * element : rows[1].data() + one.from;
  const std::byte* factors = rows[2].data() + one.factors;
  if (one.step < 0 && count > 0) factors += (count - 1) * distance * element;
  Row dense(count * element + element);
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(dense.data() + i * element,
                factors + static_cast<std::int64_t>(i * element) * one.step, element);
  Row wanted = rows[0];
  tutti::kernels::find_scale(dtype)(wanted.data() + one.to * element, from,
                                    one.step == 0 ? factors : dense.data(), one.step != 0, count);
  ReduceArguments all;
  all.to = rows[0].data() + one.to * element;
  all.sources[0] = from;
  all.k = 1;
  all.count = count;
  all.step = one.step;
  if (one.of_host)
    std::memcpy(all.factor, factors, element);
  else
    all.factors = factors;
  run(all);
  EXPECT_TRUE(rows[0] == wanted);
}

TEST(CudaKernels, ScaleWithTheBitsOfTheCpu) {
  std::mt19937_64 random(7);
  int dtypes = 0;
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    EXPECT_EQ(scale_kernel_of(dtype).has_value(), tutti::kernels::find_scale(dtype) != nullptr);
    if (!scale_kernel_of(dtype)) continue;
    ++dtypes;
    for (const std::int64_t step : {0, 1, 3, -1, -2}) {
      for (const bool in_place : {false, true}) {
        for (std::size_t count = 0; count < 40; ++count)
          compare_scaled(dtype, count, {.step = step, .in_place = in_place}, random);
        // Addresses of any elements, and what is no address of one.
        compare_scaled(dtype, 333, {.step = step, .in_place = in_place, .to = 1}, random);
        compare_scaled(dtype, 333, {.step = step, .in_place = in_place, .factors = 16}, random);
        compare_scaled(dtype, 333, {.step = step, .in_place = in_place, .factors = 8}, random);
        compare_scaled(dtype, 333, {.step = step, .in_place = in_place, .factors = 3}, random);
      }
      compare_scaled(dtype, 333, {.step = step, .from = 8}, random);
      compare_scaled(dtype, 333, {.step = step, .to = 3, .from = 1, .factors = 1}, random);
      compare_scaled(dtype, 70'000, {.step = step}, random);  // of 16 bits all, most likely
    }
    for (int i = 0; i < 300; ++i)
      compare_scaled(dtype, 100, {.of_host = true, .in_place = i % 2 == 0}, random);
  }
  EXPECT_EQ(dtypes, 16);
}

}  // namespace
}  // namespace tutti::cuda::kernels
