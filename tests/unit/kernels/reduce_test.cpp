#include "kernels/reduce.hpp"

#include "kernels/reduce_targets.hpp"  // before Highway: the same targets as the kernels
//
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "unit/kernels/reduce_reference.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tutti::kernels {
namespace {

constexpr std::array kOps = {ReduceOp::sum,  ReduceOp::product, ReduceOp::min, ReduceOp::max,
                             ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor};

/// Every CPU target that this CPU can run, one after the other.
class ForEachTarget {
 public:
  template <class Body>
  static void run(const Body& body) {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      choose(target);
      SCOPED_TRACE(hwy::TargetName(target));
      body();
    }
    choose(0);
  }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

/// Source arrays and the output, each at its own misalignment with guards around it.
template <class T>
class Arrays {
 public:
  Arrays(int k, std::size_t count, std::mt19937_64& random, bool aligned)
      : count_(count), values_(static_cast<std::size_t>(k), std::vector<T>(count)) {
    for (auto& row : values_) {
      for (std::size_t i = 0; i < count; ++i) row[i] = testing::random_value<T>(random);
      places_.push_back(place(random, aligned));
      write(places_.back(), row);
    }
    dst_ = place(random, aligned);
    for (Place& p : places_) sources_.push_back(p.data());
  }

  /// Calls and compares: every bit of the result, the guards, the sources. `alias` >= 0 makes that
  /// source the output.
  void check(ReduceFn reduce, ReduceOp op, int alias = -1) {
    Place& out = alias < 0 ? dst_ : places_[static_cast<std::size_t>(alias)];
    reduce(out.data(), sources_.data(), static_cast<int>(sources_.size()), count_);
    check_place(out, expected(op));
    for (std::size_t j = 0; j < places_.size(); ++j) {
      if (static_cast<int>(j) != alias) check_place(places_[j], values_[j]);
    }
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xa5};

  struct Place {
    std::vector<std::byte> bytes;
    std::size_t start = 0;
    [[nodiscard]] std::byte* data() { return bytes.data() + start; }
  };

  [[nodiscard]] Place place(std::mt19937_64& random, bool aligned) const {
    const std::size_t start = kGuard + (aligned ? random() % 8 * sizeof(T) : random() % 67);
    return {std::vector<std::byte>(start + count_ * sizeof(T) + kGuard, kGuardByte), start};
  }

  static void write(Place& to, const std::vector<T>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const T value = row[i];
      std::memcpy(to.data() + i * sizeof(T), &value, sizeof value);
    }
  }

  [[nodiscard]] std::vector<T> expected(ReduceOp op) const {
    std::vector<T> result(count_);
    std::vector<T> column(values_.size());
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < values_.size(); ++j) column[j] = values_[j][i];
      result[i] = testing::tree<T>(op, column);
    }
    return result;
  }

  void check_place(Place& found, const std::vector<T>& values) const {
    Place wanted{std::vector<std::byte>(found.bytes.size(), kGuardByte), found.start};
    write(wanted, values);
    if (found.bytes == wanted.bytes) return;
    std::size_t at = 0;
    while (found.bytes[at] == wanted.bytes[at]) ++at;
    ADD_FAILURE() << "byte " << at << " is wrong; elements start at " << found.start << ", count "
                  << count_ << ", k " << values_.size();
  }

  std::size_t count_;
  std::vector<std::vector<T>> values_;
  std::vector<Place> places_;
  Place dst_;
  std::vector<const void*> sources_;
};

template <class T>
class Reduce : public ::testing::Test {};

struct TypeName {
  template <class T>
  static std::string GetName(int) {
    return std::string(to_string(*dtype_of<T>()));
  }
};

using Types =
    ::testing::Types<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                     std::int32_t, std::uint64_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(Reduce, Types, TypeName);

template <class T, class Body>
void for_each_kernel(const Body& body) {
  ForEachTarget::run([&] {
    for (const ReduceOp op : kOps) {
      SCOPED_TRACE(to_string(op));
      const bool bitwise = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
      const ReduceFn plain = find_reduce(op, *dtype_of<T>());
      const ReduceFn streaming = find_reduce_nt(op, *dtype_of<T>());
      const bool wanted = !(std::floating_point<T> && bitwise);
      EXPECT_EQ(plain != nullptr, wanted);
      EXPECT_EQ(streaming != nullptr, wanted);
      if (plain != nullptr && streaming != nullptr) body(op, plain, streaming);
    }
  });
}

TYPED_TEST(Reduce, EveryCountUpTo300AtAnyAlignment) {
  std::mt19937_64 random(1);
  for_each_kernel<TypeParam>([&](ReduceOp op, ReduceFn plain, ReduceFn streaming) {
    for (std::size_t count = 0; count <= 300; ++count) {
      // Over ten counts, every k up to one more than what is done in registers, and 25.
      const int k = count % 10 == 9 ? 25 : static_cast<int>(count % 10) + 1;
      Arrays<TypeParam>(k, count, random, count % 2 == 0).check(plain, op);
      if (count % 16 == 0) Arrays<TypeParam>(k, count, random, false).check(streaming, op);
    }
  });
}

TYPED_TEST(Reduce, EveryNumberOfSourcesUpTo33) {
  std::mt19937_64 random(2);
  for_each_kernel<TypeParam>([&](ReduceOp op, ReduceFn plain, ReduceFn) {
    for (int k = 1; k <= 33; ++k) {
      Arrays<TypeParam>(k, 2, random, true).check(plain, op);
      Arrays<TypeParam>(k, 45, random, false).check(plain, op);
    }
  });
}

TYPED_TEST(Reduce, TheOutputMayBeAnySource) {
  std::mt19937_64 random(3);
  for_each_kernel<TypeParam>([&](ReduceOp op, ReduceFn plain, ReduceFn streaming) {
    for (const int k : {1, 2, 3, 7, 8, 9, 17}) {
      for (const int alias : {0, k / 2, k - 1}) {
        Arrays<TypeParam>(k, 77, random, false).check(plain, op, alias);
      }
    }
    Arrays<TypeParam>(3, 20'000 / sizeof(TypeParam), random, true).check(streaming, op, 1);
    Arrays<TypeParam>(9, 5'000 / sizeof(TypeParam), random, true).check(plain, op, 8);
  });
}

TYPED_TEST(Reduce, LargeOnesInBlocksAndPastTheCache) {
  std::mt19937_64 random(4);
  for_each_kernel<TypeParam>([&](ReduceOp op, ReduceFn plain, ReduceFn streaming) {
    for (const bool aligned : {true, false}) {
      Arrays<TypeParam>(1, 20'001 / sizeof(TypeParam), random, aligned).check(streaming, op);
      Arrays<TypeParam>(2, 20'001 / sizeof(TypeParam), random, aligned).check(streaming, op);
      Arrays<TypeParam>(11, 16'384 / sizeof(TypeParam), random, aligned).check(streaming, op);
      Arrays<TypeParam>(10, 3'000 / sizeof(TypeParam), random, aligned).check(plain, op);
    }
  });
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

TEST(ReduceKernels, WhatHasNoMeaningHereHasNoKernel) {
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (const ReduceOp op : {ReduceOp::avg, ReduceOp::premul_sum}) {
      EXPECT_EQ(find_reduce(op, static_cast<DType>(dtype)), nullptr);
      EXPECT_EQ(find_reduce_nt(op, static_cast<DType>(dtype)), nullptr);
    }
  }
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2,
                            DType::complex64, DType::complex128}) {
    for (const ReduceOp op : kOps) EXPECT_EQ(find_reduce(op, dtype), nullptr);
  }
}

#if defined(__SSE2__)

/// Whatever the caller computes with stands again afterwards.
class OddMode {
 public:
  explicit OddMode(unsigned mode) : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | mode); }
  ~OddMode() { _mm_setcsr(saved_); }
  OddMode(const OddMode&) = delete;
  OddMode& operator=(const OddMode&) = delete;

 private:
  unsigned saved_;
};

TEST(ReduceKernels, TheCallersDenormalAndRoundingModesDoNotCount) {
  constexpr unsigned kFlush = 0x8000;
  constexpr unsigned kAsZero = 0x0040;
  constexpr unsigned kRoundUp = 0x4000;
  constexpr std::size_t kCount = 6'000;  // enough for the form that writes past the cache
  std::mt19937_64 random(6);
  std::vector<std::vector<float>> rows(9, std::vector<float>(kCount));
  std::vector<const void*> sources;
  for (auto& row : rows) {
    for (float& v : row) {
      v = random() % 2 == 0
              ? std::numeric_limits<float>::denorm_min() * static_cast<float>(random() % 999)
              : static_cast<float>(random() % 100'000'007) * 1e-3F;
    }
    sources.push_back(row.data());
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    for (const ReduceFn reduce :
         {find_reduce(op, DType::float32), find_reduce_nt(op, DType::float32)}) {
      for (const int k : {2, 8, 9}) {
        std::vector<float> usual(kCount);
        std::vector<float> odd(kCount);
        reduce(usual.data(), sources.data(), k, kCount);
        {
          const OddMode mode(kFlush | kAsZero | kRoundUp);
          const unsigned before = _mm_getcsr() & ~0x3fU;
          reduce(odd.data(), sources.data(), k, kCount);
          EXPECT_EQ(_mm_getcsr() & ~0x3fU, before);
        }
        EXPECT_EQ(0, std::memcmp(usual.data(), odd.data(), kCount * sizeof(float)));
      }
    }
  }
}

#endif

}  // namespace
}  // namespace tutti::kernels
