// AVG and what PREMUL_SUM does to an input, for every dtype that has them.

#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include "unit/kernels/kernel_arrays.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include "kernels/denormals.hpp"
#endif

namespace tutti::kernels {
namespace {

using namespace testing;

class Average : public ::testing::TestWithParam<Reference> {
 protected:
  void check(AverageFn average, std::int64_t divisor, int k, std::size_t count, int alias = -1) {
    SCOPED_TRACE(divisor);
    const auto call = [&](void* dst, const void* const* sources, int of, std::size_t elements) {
      average(dst, sources, of, elements, divisor);
    };
    Arrays arrays(GetParam(), k, count, random_, count % 2 == 0);
    arrays.check_call(call, GetParam().averaged(divisor, arrays.rows()), alias);
  }
  /// The body gets the kernel of each CPU target.
  template <class Body>
  static void for_each_average(const Body& body) {
    ForEachTarget::run([&] {
      const AverageFn average = find_average(GetParam().dtype);
      ASSERT_NE(average, nullptr);
      body(average);
    });
  }

  std::mt19937_64 random_{11};
};
class Scale : public ::testing::TestWithParam<Reference> {};

/// All that have means and products: all but bool.
std::vector<Reference> numbers() {
  return {testing::references().begin() + 1, testing::references().end()};
}
INSTANTIATE_TEST_SUITE_P(Types, Average, ::testing::ValuesIn(numbers()), testing::name_of);
INSTANTIATE_TEST_SUITE_P(Types, Scale, ::testing::ValuesIn(numbers()), testing::name_of);

TEST_P(Average, EveryCountUpTo70AndNumberOfSourcesAndRanks) {
  for_each_average([&](AverageFn average) {
    for (const int k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33}) {
      // 3, 300 and 70,000 do not divide by shifts, nor fit into the narrow integers.
      for (const std::int64_t divisor : {k, k + 1, 3, 300, 70'000}) check(average, divisor, k, 45);
    }
    for (std::size_t count = 0; count <= 70; ++count) {
      const int k = static_cast<int>(count % 10) + 1;
      check(average, k, k, count);
    }
  });
}

TEST_P(Average, LargeOnesAndInPlace) {
  const std::size_t large = 20'003 / GetParam().size;
  for_each_average([&](AverageFn average) {
    for (const int k : {1, 2, 5, 8, 9, 17}) {
      if (test::kSanitized && k != 2 && k != 9) continue;  // the values are dev's business
      check(average, 5, k, 1'100, k - 1);
      check(average, 6, k, large, k / 2);
      check(average, 8, k, large, 0);
    }
  });
}

TEST_P(Scale, OneFactorOrOneForEach) {
  std::mt19937_64 random(14);
  const Reference& of = GetParam();
  ForEachTarget::run([&] {
    const ScaleFn scale = find_scale(of.dtype);
    ASSERT_NE(scale, nullptr);
    std::vector<std::size_t> counts(71);
    std::iota(counts.begin(), counts.end(), std::size_t{0});
    counts.insert(counts.end(), {511, 512, 513, 20'001});
    for (const std::size_t count : counts) {
      for (const int alias : {-1, 0, 1}) {
        Arrays with_factors(of, 2, count, random, alias == 0);  // the second source
        with_factors.check_call([&](void* dst, const void* const* sources, int,
                                    std::size_t n) { scale(dst, sources[0], sources[1], true, n); },
                                of.scaled(with_factors.rows()[0], with_factors.rows()[1]), alias);
        if (alias == 1) continue;
        Row factor(of.size);
        of.fill(random, factor);
        Arrays one(of, 1, count, random, alias == 0);
        one.check_call([&](void* dst, const void* const* sources, int,
                           std::size_t n) { scale(dst, sources[0], factor.data(), false, n); },
                       of.scaled(one.rows()[0], factor), alias);
      }
    }
  });
}

TEST(Scale, ReadsNoFactorForNoElements) {
  for (int i = 1; i < kDTypeCount; ++i) {
    find_scale(static_cast<DType>(i))(nullptr, nullptr, nullptr, false, 0);
    find_scale(static_cast<DType>(i))(nullptr, nullptr, nullptr, true, 0);
  }
}

TEST(Average, DividesAndDoesNotMultiply) {
  const float five = 5.0F;
  const float seven = 7.0F;
  const std::array<const void*, 2> sources = {&five, &seven};
  float result = 0;
  find_average(DType::float32)(&result, sources.data(), 2, 1, 49);
  EXPECT_EQ(result, 12.0F / 49.0F);
  const std::array<std::int8_t, 2> small = {-100, -100};  // wraps to 56
  const std::array<const void*, 2> wrapping = {&small[0], &small[1]};
  std::int8_t quotient = 0;
  find_average(DType::int8)(&quotient, wrapping.data(), 2, 1, 3);
  EXPECT_EQ(quotient, 18);
  const std::int8_t minus = -7;
  const void* one = &minus;
  find_average(DType::int8)(&quotient, &one, 1, 1, 2);
  EXPECT_EQ(quotient, -3);  // towards zero
}

TEST(Average, NarrowSumsAreDividedBeforeTheyAreRounded) {
  // 65504 + 65504 is no float16; half of it is.
  const std::uint16_t greatest = 0x7bff;
  const std::array<const void*, 2> sources = {&greatest, &greatest};
  std::uint16_t result = 0;
  find_average(DType::float16)(&result, sources.data(), 2, 1, 2);
  EXPECT_EQ(result, greatest);
}

#if defined(__SSE2__) || defined(__aarch64__)

#if defined(__SSE2__)
std::uint64_t float_modes() { return _mm_getcsr() & ~0x3fU; }
void set_float_modes(std::uint64_t modes) { _mm_setcsr(static_cast<unsigned>(modes)); }
constexpr std::uint64_t kFlushAsZeroUp = 0x8000 | 0x0040 | 0x4000;
#else
std::uint64_t float_modes() { return FloatMode::control(); }
void set_float_modes(std::uint64_t modes) { FloatMode::set_control(modes); }
constexpr std::uint64_t kFlushAsZeroUp = 1U << 24 | 1U << 22;
#endif

/// While it lives, this thread computes in other modes than usual.
class OddMode {
 public:
  explicit OddMode(std::uint64_t mode) : saved_(float_modes()) { set_float_modes(saved_ | mode); }
  ~OddMode() { set_float_modes(saved_); }
  OddMode(const OddMode&) = delete;
  OddMode& operator=(const OddMode&) = delete;

 private:
  std::uint64_t saved_;
};

TEST(Average, TheCallersDenormalAndRoundingModesDoNotCount) {
  constexpr std::size_t kBytes = 24'000;  // enough for the form with non-temporal stores
  std::mt19937_64 random(15);
  std::vector<std::vector<std::uint64_t>> rows(9, std::vector<std::uint64_t>(kBytes / 8));
  std::vector<const void*> sources;
  for (const auto& row : rows) sources.push_back(row.data());
  const auto denormals = [&] { return random() & 0x807f'807f'807f'807f; };
  const auto denormals_beside_others = [&] {
    const auto half = [&] {
      const float value = random() % 2 == 0 ? std::numeric_limits<float>::denorm_min() *
                                                  static_cast<float>(random() % 999)
                                            : static_cast<float>(random() % 100'000'007) * 1e-3F;
      return std::uint64_t{std::bit_cast<std::uint32_t>(value)};
    };
    return half() << 32 | half();
  };
  const auto compare = [&] {
    for (int i = static_cast<int>(DType::float16); i < kDTypeCount; ++i) {
      const auto type = static_cast<DType>(i);
      SCOPED_TRACE(to_string(type));
      const std::size_t count = kBytes / size_of(type);
      const auto both = [&](const auto& call) {
        std::vector<std::byte> usual(kBytes);
        std::vector<std::byte> odd(kBytes);
        call(usual.data());
        {
          const OddMode mode(kFlushAsZeroUp);
          const std::uint64_t before = float_modes();
          call(odd.data());
          EXPECT_EQ(float_modes(), before);
        }
        EXPECT_EQ(usual, odd);
      };
      for (const int k : {1, 2, 8, 9}) {
        both([&](void* dst) { find_average(type)(dst, sources.data(), k, count, 3); });
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
          if (!is_supported(op, type)) continue;
          both([&](void* dst) { find_reduce(op, type)(dst, sources.data(), k, count); });
          both([&](void* dst) { find_reduce_nt(op, type)(dst, sources.data(), k, count); });
        }
      }
      both([&](void* dst) { find_scale(type)(dst, sources[0], sources[1], true, count); });
      both([&](void* dst) { find_scale(type)(dst, sources[0], sources[1], false, count); });
    }
  };
  for (auto& row : rows) std::ranges::generate(row, denormals);
  ForEachTarget::run(compare);
  for (auto& row : rows) std::ranges::generate(row, denormals_beside_others);
  ForEachTarget::run(compare);
}

#endif

}  // namespace
}  // namespace tutti::kernels
