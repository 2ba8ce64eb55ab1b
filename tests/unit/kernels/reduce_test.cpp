#include "kernels/reduce.hpp"

#include <array>
#include <cmath>

#include "unit/kernels/kernel_arrays.hpp"

namespace tutti::kernels {
namespace {

using namespace testing;

constexpr std::array kOps = {ReduceOp::sum,  ReduceOp::product, ReduceOp::min, ReduceOp::max,
                             ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor};

class Reduce : public ::testing::TestWithParam<Reference> {
 protected:
  /// The body gets the kernels of each CPU target and op.
  template <class Body>
  static void for_each_kernel(const Body& body) {
    const Reference& of = GetParam();
    ForEachTarget::run([&] {
      for (const ReduceOp op : kOps) {
        SCOPED_TRACE(to_string(op));
        const ReduceFn plain = find_reduce(op, of.dtype);
        const ReduceFn streaming = find_reduce_nt(op, of.dtype);
        const bool wanted = is_supported(op, of.dtype);
        EXPECT_EQ(plain != nullptr, wanted);
        EXPECT_EQ(streaming != nullptr, wanted);
        if (plain != nullptr && streaming != nullptr) body(op, plain, streaming);
      }
    });
  }
  Arrays arrays(int k, std::size_t count, bool aligned) {
    return Arrays(GetParam(), k, count, random_, aligned);
  }

  std::mt19937_64 random_{1};
};

INSTANTIATE_TEST_SUITE_P(Types, Reduce, ::testing::ValuesIn(testing::references()),
                         testing::name_of);

TEST_P(Reduce, EveryCountUpTo300AtAnyAlignmentAndUpTo33Sources) {
  for_each_kernel([&](ReduceOp op, ReduceFn plain, ReduceFn streaming) {
    for (std::size_t count = 0; count <= 300; ++count) {
      // Over ten counts, every k up to one more than what is done in registers, and 25.
      const int k = count % 10 == 9 ? 25 : static_cast<int>(count % 10) + 1;
      arrays(k, count, count % 2 == 0).check(plain, op);
      if (count % 16 == 0) arrays(k, count, false).check(streaming, op);
    }
    for (int k = 1; k <= 33; ++k) {
      arrays(k, 2, true).check(plain, op);
      arrays(k, 45, false).check(plain, op);
    }
  });
}

TEST_P(Reduce, TheOutputMayBeAnySource) {
  const std::size_t size = GetParam().size;
  for_each_kernel([&](ReduceOp op, ReduceFn plain, ReduceFn streaming) {
    for (const int k : {1, 2, 3, 7, 8, 9, 17}) {
      for (const int alias : {0, k / 2, k - 1}) arrays(k, 77, false).check(plain, op, alias);
    }
    arrays(3, 20'000 / size, true).check(streaming, op, 1);
    arrays(9, 5'000 / size, true).check(plain, op, 8);
  });
}

TEST_P(Reduce, LargeOnesInBlocksAndPastTheCache) {
  const std::size_t size = GetParam().size;
  for_each_kernel([&](ReduceOp op, ReduceFn plain, ReduceFn streaming) {
    for (const bool aligned : {true, false}) {
      if (aligned && test::kSanitized)
        continue;  // the same memory, and the values are dev's business
      arrays(1, 20'001 / size, aligned).check(streaming, op);
      arrays(2, 20'001 / size, aligned).check(streaming, op);
      arrays(11, 16'384 / size, aligned).check(streaming, op);
      arrays(10, 3'000 / size, aligned).check(plain, op);
    }
  });
}

TEST(ReduceKernels, TheOrderIsTheTreesAndNotALine) {
  const float big = 0x1p24F;
  const std::array<float, 4> values = {1.0F, big, 1.0F, -big};
  std::vector<const void*> sources;
  for (const float& v : values) sources.push_back(&v);
  float result = 0;
  find_reduce(ReduceOp::sum, DType::float32)(&result, sources.data(), 4, 1);
  EXPECT_EQ(result, (1.0F + big) + (1.0F - big));
  EXPECT_NE(result, ((1.0F + big) + 1.0F) - big);
}

TEST(ReduceKernels, ManySources) {
  constexpr int kMany = 65'536;
  std::vector<float> values(kMany + 1);
  std::mt19937_64 random(5);
  for (float& v : values)
    v = std::ldexp(static_cast<float>(random() % 1'000'003), static_cast<int>(random() % 9));
  std::vector<const void*> sources;
  for (const float& v : values) sources.push_back(&v);
  const ReduceFn sum = find_reduce(ReduceOp::sum, DType::float32);
  for (const int k : {1'000, 4'095, 4'097, kMany - 1, kMany, kMany + 1}) {
    float result = 0;
    sum(&result, sources.data(), k, 1);
    EXPECT_EQ(result,
              testing::tree(ReduceOp::sum, std::vector(values.begin(), values.begin() + k)));
  }
}

TEST(ReduceKernels, ZerosAreOrderedAndNanWins) {
  const float zero = 0.0F;
  const float minus_zero = -0.0F;
  const float nan = std::bit_cast<float>(0xffc01234U);
  const auto bits = [](ReduceOp op, float a, float b) {
    const std::array<const void*, 2> sources = {&a, &b};
    float result = 7;
    find_reduce(op, DType::float32)(&result, sources.data(), 2, 1);
    return std::bit_cast<std::uint32_t>(result);
  };
  for (const auto& [a, b] : {std::pair(zero, minus_zero), std::pair(minus_zero, zero)}) {
    EXPECT_EQ(bits(ReduceOp::min, a, b), 0x80000000U);
    EXPECT_EQ(bits(ReduceOp::max, a, b), 0U);
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
    EXPECT_EQ(bits(op, 1.0F, nan), 0x7fc00000U);
    EXPECT_EQ(bits(op, nan, 1.0F), 0x7fc00000U);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bits(ReduceOp::sum, infinity, -infinity), 0x7fc00000U);
  EXPECT_EQ(bits(ReduceOp::product, 0.0F, infinity), 0x7fc00000U);
}

}  // namespace
}  // namespace tutti::kernels
