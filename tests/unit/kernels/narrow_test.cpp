#include "kernels/narrow.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "unit/kernels/kernel_arrays.hpp"

namespace tutti::kernels {
namespace {

using testing::ForEachTarget;

template <class T>
class NarrowFloats : public ::testing::Test {};

struct TypeName {
  template <class T>
  static std::string GetName(int) {
    return std::string(to_string(T::kDType));
  }
};

using NarrowTypes = ::testing::Types<testing::Half, testing::Brain, testing::E4M3, testing::E5M2>;
TYPED_TEST_SUITE(NarrowFloats, NarrowTypes, TypeName);

template <class T>
std::vector<T> all_values() {
  std::vector<T> values;
  for (unsigned bits = 0; bits < 2 * T::kSign; ++bits)
    values.push_back(T{static_cast<decltype(T::bits)>(bits)});
  return values;
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TYPED_TEST(NarrowFloats, EveryValueIsWidenedExactlyAndComesBack) {
  using T = TypeParam;
  const std::vector<T> values = all_values<T>();
  ForEachTarget::run([&] {
    std::vector<float> wide(values.size());
    std::vector<T> back(values.size());
    find_widen(T::kDType)(wide.data(), values.data(), values.size());
    find_narrow(T::kDType)(back.data(), wide.data(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float wanted = testing::widen(values[i]);
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(wide[i])) << i;
        ASSERT_EQ(back[i].bits, quiet_nan_bits(T::kDType)) << i;
      } else {
        ASSERT_EQ(bits_of(wide[i]), bits_of(wanted)) << i;
        ASSERT_EQ(back[i].bits, values[i].bits);
      }
    }
  });
}

/// Around every value, and half-way between each and the next, where rounding turns.
TYPED_TEST(NarrowFloats, RoundsToTheNearestAndTiesToEven) {
  using T = TypeParam;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> wide = {kInfinity,
                             std::numeric_limits<float>::quiet_NaN(),
                             std::bit_cast<float>(0x7f800001U),  // signalling
                             std::bit_cast<float>(0xffffffffU),
                             std::numeric_limits<float>::max(),
                             std::numeric_limits<float>::denorm_min(),
                             std::numeric_limits<float>::min()};
  for (unsigned m = 0; m <= T::kGreatest; ++m) {
    const double low = testing::magnitude_value<T>(m);
    const double high = testing::magnitude_value<T>(m + 1);
    for (const double x : {low, (low + high) / 2, (low + high) / 2 + (high - low) / 8, high}) {
      const auto value = static_cast<float>(x);
      for (const float v : {std::nextafter(value, 0.0F), value, std::nextafter(value, kInfinity)}) {
        wide.push_back(v);
        wide.push_back(-v);
      }
    }
  }
  wide.push_back(-kInfinity);
  ForEachTarget::run([&] {
    std::vector<T> narrow(wide.size());
    find_narrow(T::kDType)(narrow.data(), wide.data(), wide.size());
    for (std::size_t i = 0; i < wide.size(); ++i)
      ASSERT_EQ(narrow[i].bits, testing::narrowed<T>(wide[i]).bits) << std::hexfloat << wide[i];
  });
}

TYPED_TEST(NarrowFloats, EveryValueCopiedAndAddedToZero) {
  using T = TypeParam;
  const std::vector<T> values = all_values<T>();
  const std::vector<T> zeros(values.size());
  const void* sources[] = {values.data(), zeros.data()};
  ForEachTarget::run([&] {
    const ReduceFn sum = find_reduce(ReduceOp::sum, T::kDType);
    std::vector<T> result(values.size());
    sum(result.data(), sources, 1, values.size());
    EXPECT_EQ(0, std::memcmp(result.data(), values.data(), values.size() * sizeof(T)));
    sum(result.data(), sources, 2, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      unsigned wanted = values[i].bits == T::kSign ? 0 : values[i].bits;  // -0 + 0 = 0
      if (std::isnan(testing::widen(values[i]))) wanted = T::kNan;
      ASSERT_EQ(result[i].bits, wanted);
    }
  });
}

template <class T>
void check_every_pair() {
  const std::vector<T> values = all_values<T>();
  std::vector<T> left;
  std::vector<T> right;
  for (const T a : values) {
    for (const T b : values) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const void* sources[] = {left.data(), right.data()};
  ForEachTarget::run([&] {
    std::vector<T> result(left.size());
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
      SCOPED_TRACE(to_string(op));
      const bool average = op == ReduceOp::avg;
      if (average)
        find_average(T::kDType)(result.data(), sources, 2, left.size(), 3);
      else
        find_reduce(op, T::kDType)(result.data(), sources, 2, left.size());
      for (std::size_t i = 0; i < left.size(); ++i) {
        // Sums and products of two are exact in double, and so rounded once.
        const double a = testing::widen(left[i]);
        const double b = testing::widen(right[i]);
        const double wanted = average ? (a + b) / 3 : testing::combine<double>(op, a, b);
        ASSERT_EQ(result[i].bits, testing::narrowed<T>(wanted).bits) << a << " and " << b;
      }
    }
  });
}

TEST(NarrowFloats, EveryPairOfFloat8E4M3) { check_every_pair<testing::E4M3>(); }

TEST(NarrowFloats, EveryPairOfFloat8E5M2) { check_every_pair<testing::E5M2>(); }

/// As torch converts: half a step beyond the greatest is still the greatest.
TEST(NarrowFloats, OverflowIsNanInE4M3AndInfinityElsewhere) {
  const auto narrow = [](DType dtype, float value) {
    std::uint16_t bits = 0;
    find_narrow(dtype)(&bits, &value, 1);
    return bits;
  };
  EXPECT_EQ(narrow(DType::float8_e4m3, 448.0F), 0x7e);
  EXPECT_EQ(narrow(DType::float8_e4m3, -464.0F), 0xfe);
  EXPECT_EQ(narrow(DType::float8_e4m3, std::nextafter(464.0F, 500.0F)), 0x7f);
  EXPECT_EQ(narrow(DType::float8_e4m3, -480.0F), 0x7f);
  EXPECT_EQ(narrow(DType::float8_e4m3, std::numeric_limits<float>::infinity()), 0x7f);
  EXPECT_EQ(narrow(DType::float8_e5m2, std::nextafter(61440.0F, 0.0F)), 0x7b);
  EXPECT_EQ(narrow(DType::float8_e5m2, -61440.0F), 0xfc);
  EXPECT_EQ(narrow(DType::float16, std::nextafter(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(narrow(DType::float16, 65520.0F), 0x7c00);
  EXPECT_EQ(narrow(DType::bfloat16, -std::numeric_limits<float>::max()), 0xff80);
}

/// In float16 itself, the sum would stop growing at 2048.
TEST(NarrowFloats, ManySourcesAreRoundedOnceAtTheEnd) {
  const std::uint16_t one = 0x3c00;
  const std::vector<const void*> sources(4'099, &one);
  std::uint16_t result = 0;
  find_reduce(ReduceOp::sum, DType::float16)(&result, sources.data(), 4'098, 1);
  EXPECT_EQ(testing::widen(testing::Half{result}), 4'096.0F);  // 4098 lies half-way to 4100
  find_reduce(ReduceOp::sum, DType::float16)(&result, sources.data(), 4'099, 1);
  EXPECT_EQ(testing::widen(testing::Half{result}), 4'100.0F);
}

}  // namespace
}  // namespace tutti::kernels
