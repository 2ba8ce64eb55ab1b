#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <tutti/dtype.hpp>

namespace tutti::kernels::testing {

/// The narrow floats by their definition: every value is listed, and rounding looks for the
/// nearest. kGreatest: the bits of the greatest finite value; kBeyond: what follows it, as overflow
/// or NaN.
template <DType kType, class B, int kMantissaBits, int kExponentBias, unsigned kGreatestBits,
          unsigned kBeyondBits, unsigned kNanBits>
struct NarrowFloat {
  B bits;
  static constexpr DType kDType = kType;
  static constexpr int kMantissa = kMantissaBits;
  static constexpr int kBias = kExponentBias;
  static constexpr unsigned kGreatest = kGreatestBits;
  static constexpr unsigned kBeyond = kBeyondBits;
  static constexpr unsigned kNan = kNanBits;
  static constexpr unsigned kSign = 1U << (8 * sizeof(B) - 1);
};

using Half = NarrowFloat<DType::float16, std::uint16_t, 10, 15, 0x7bff, 0x7c00, 0x7e00>;
using Brain = NarrowFloat<DType::bfloat16, std::uint16_t, 7, 127, 0x7f7f, 0x7f80, 0x7fc0>;
using E4M3 = NarrowFloat<DType::float8_e4m3, std::uint8_t, 3, 7, 0x7e, 0x7f, 0x7f>;
using E5M2 = NarrowFloat<DType::float8_e5m2, std::uint8_t, 2, 15, 0x7b, 0x7c, 0x7f>;

template <class T>
concept Narrow = requires {
  T::kGreatest;
};

/// Of a magnitude, also of the one after the greatest, as if it were finite.
template <Narrow T>
double magnitude_value(unsigned magnitude) {
  const auto exponent = static_cast<int>(magnitude >> T::kMantissa);
  const unsigned mantissa = magnitude & ((1U << T::kMantissa) - 1);
  const int least = 1 - T::kBias - T::kMantissa;
  if (exponent == 0) return std::ldexp(mantissa, least);
  return std::ldexp(mantissa + (1U << T::kMantissa), least + exponent - 1);
}

template <Narrow T>
float define_value(T value) {
  const unsigned magnitude = value.bits & (T::kSign - 1);
  const float sign = (value.bits & T::kSign) != 0 ? -1.0F : 1.0F;
  if (magnitude <= T::kGreatest)
    return std::copysign(static_cast<float>(magnitude_value<T>(magnitude)), sign);
  if (magnitude == T::kBeyond && T::kBeyond != T::kNan)
    return std::copysign(std::numeric_limits<float>::infinity(), sign);
  return std::numeric_limits<float>::quiet_NaN();
}

template <Narrow T>
float widen(T value) {
  static const std::vector<float> values = [] {
    std::vector<float> all;
    for (unsigned bits = 0; bits < 2 * T::kSign; ++bits)
      all.push_back(define_value(T{static_cast<decltype(T::bits)>(bits)}));
    return all;
  }();
  return values[value.bits];
}

/// All of them, until the next call.
template <Narrow T>
const std::vector<float>& widened(const std::vector<T>& values) {
  static thread_local std::vector<float> result;
  result.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = widen(values[i]);
  return result;
}

/// Rounded once, ties to even.
template <Narrow T>
T narrowed(double value) {
  using Bits = decltype(T::bits);
  if (std::isnan(value)) return T{static_cast<Bits>(T::kNan)};
  static const std::vector<double> values = [] {
    std::vector<double> all;
    for (unsigned m = 0; m <= T::kBeyond; ++m) all.push_back(magnitude_value<T>(m));
    return all;
  }();
  const double x = std::fabs(value);
  unsigned result = T::kBeyond;
  if (x < values.back()) {
    const auto above = std::upper_bound(values.begin(), values.end(), x);
    const auto below = static_cast<unsigned>(above - values.begin()) - 1;
    const double up = *above - x;
    const double down = x - values[below];
    const bool upward = up < down || (up == down && below % 2 == 1);
    result = upward ? below + 1 : below;
  }
  if (result == T::kNan) return T{static_cast<Bits>(T::kNan)};
  return T{static_cast<Bits>(result | (std::signbit(value) ? T::kSign : 0))};
}

}  // namespace tutti::kernels::testing
