#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <tutti/arguments.hpp>
#include <tutti/dtype.hpp>

#include "unit/kernels/narrow_reference.hpp"

namespace tutti::kernels::testing {

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};
template <class T>
concept Complex = IsComplex<T>::value;

/// The DType of the types here.
template <class T>
constexpr DType dtype() {
  if constexpr (Narrow<T>)
    return T::kDType;
  else
    return *dtype_of<T>();
}

/// Two values combined, as the documents say it.
template <class T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (Complex<T>) {
    using R = typename T::value_type;
    const auto of = [](ReduceOp by, R x, R y) { return combine<R>(by, x, y); };
    if (op == ReduceOp::sum) return {of(op, a.real(), b.real()), of(op, a.imag(), b.imag())};
    const R ac = of(op, a.real(), b.real());
    const R bd = of(op, a.imag(), b.imag());
    const R ad = of(op, a.real(), b.imag());
    const R bc = of(op, a.imag(), b.real());
    return {of(ReduceOp::sum, ac, -bd), of(ReduceOp::sum, ad, bc)};
  } else if constexpr (std::same_as<T, bool>) {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::max:
      case ReduceOp::bor: return a || b;
      case ReduceOp::bxor: return a != b;
      default: return a && b;
    }
  } else if constexpr (std::floating_point<T>) {
    const bool nan = std::isnan(a) || std::isnan(b);
    T result{};
    switch (op) {
      case ReduceOp::sum: result = a + b; break;
      case ReduceOp::product: result = a * b; break;
      case ReduceOp::min:
        if (a == b)
          result = std::signbit(a) ? a : b;
        else
          result = a < b ? a : b;
        break;
      default:
        if (a == b)
          result = std::signbit(a) ? b : a;
        else
          result = a > b ? a : b;
    }
    if (nan || std::isnan(result)) return std::numeric_limits<T>::quiet_NaN();
    return result;
  } else {
    using U = std::uint64_t;
    const U x = static_cast<U>(a);
    const U y = static_cast<U>(b);
    switch (op) {
      case ReduceOp::sum: return static_cast<T>(x + y);
      case ReduceOp::product: return static_cast<T>(x * y);
      case ReduceOp::min: return a < b ? a : b;
      case ReduceOp::max: return a < b ? b : a;
      case ReduceOp::band: return static_cast<T>(x & y);
      case ReduceOp::bor: return static_cast<T>(x | y);
      default: return static_cast<T>(x ^ y);
    }
  }
}

/// The tree as rounds: in the round of distance d, rank i takes what rank i + d has, where i is a
/// multiple of 2 d.
template <class T>
T tree(ReduceOp op, const std::vector<T>& leaves) {
  if constexpr (Narrow<T>) {
    if (leaves.size() == 1) return leaves[0];
    return narrowed<T>(tree<float>(op, widened(leaves)));
  } else {
    // Kept: it is asked for every element, and memory is what costs most under sanitizers.
    static thread_local std::vector<T> values;
    values.assign(leaves.begin(), leaves.end());
    for (std::size_t d = 1; d < values.size(); d *= 2) {
      for (std::size_t i = 0; i + d < values.size(); i += 2 * d)
        values[i] = combine<T>(op, values[i], values[i + d]);
    }
    return values[0];
  }
}

/// A quotient or a product of one element, as the documents say it.
template <class T>
T settled(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

/// The AVG of these values among `divisor` ranks.
template <class T>
T average(const std::vector<T>& values, std::int64_t divisor) {
  if constexpr (Narrow<T>) {
    return narrowed<T>(average<float>(widened(values), divisor));
  } else {
    const T sum = tree<T>(ReduceOp::sum, values);
    if constexpr (Complex<T>) {
      using R = typename T::value_type;
      const R by = static_cast<R>(divisor);
      return {settled(sum.real() / by), settled(sum.imag() / by)};
    } else if constexpr (std::floating_point<T>) {
      return settled(sum / static_cast<T>(divisor));
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(std::int64_t{sum} / divisor);
    } else {
      return static_cast<T>(std::uint64_t{sum} / static_cast<std::uint64_t>(divisor));
    }
  }
}

/// What PREMUL_SUM makes of an element.
template <class T>
T scaled(T value, T factor) {
  if constexpr (Narrow<T>)
    return narrowed<T>(combine<float>(ReduceOp::product, widen(value), widen(factor)));
  else
    return combine<T>(ReduceOp::product, value, factor);
}

/// Values for which the order of additions shows, and all the odd ones.
template <class T>
T random_value(std::mt19937_64& random) {
  if constexpr (std::same_as<T, bool>) {
    return random() % 2 == 0;
  } else if constexpr (Complex<T>) {
    using R = typename T::value_type;
    const R real = random_value<R>(random);
    return {real, random_value<R>(random)};
  } else if constexpr (Narrow<T>) {
    using Bits = decltype(T::bits);
    switch (random() % 64) {
      case 0: return T{0};
      case 1: return T{Bits{1} << (8 * sizeof(Bits) - 1)};  // -0
      case 2: return narrowed<T>(std::numeric_limits<float>::infinity());
      case 3: return T{static_cast<Bits>(random() % 8)};  // denormal
      case 4: return T{static_cast<Bits>(T::kGreatest)};
      case 5: return T{static_cast<Bits>(random())};  // anything, NaN too
      default: {
        const float mantissa = static_cast<float>(static_cast<std::int32_t>(random()));
        return narrowed<T>(std::ldexp(mantissa, static_cast<int>(random() % 12) - 36));
      }
    }
  } else if constexpr (std::floating_point<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    using Limits = std::numeric_limits<T>;
    switch (random() % 64) {
      case 0: return T{0};
      case 1: return -T{0};
      case 2: return Limits::infinity();
      case 3: return -Limits::infinity();
      case 4: return Limits::denorm_min() * static_cast<T>(random() % 100);
      case 5: return Limits::max();
      case 6: return std::bit_cast<T>(static_cast<Bits>(random()));  // anything, signalling NaN too
      case 7: return -Limits::quiet_NaN();
      default: {
        const T mantissa = static_cast<T>(static_cast<std::int64_t>(random()) >> 11);
        return std::ldexp(mantissa, static_cast<int>(random() % 24) - 60);
      }
    }
  } else {
    return static_cast<T>(random());
  }
}

}  // namespace tutti::kernels::testing
