#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <tutti/collective.hpp>

namespace tutti::kernels::testing {

/// Two values combined, as the documents say it.
template <class T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::same_as<T, bool>) {
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
T tree(ReduceOp op, std::vector<T> values) {
  for (std::size_t d = 1; d < values.size(); d *= 2) {
    for (std::size_t i = 0; i + d < values.size(); i += 2 * d) {
      values[i] = combine<T>(op, values[i], values[i + d]);
    }
  }
  return values[0];
}

/// Values for which the order of additions shows, and all the odd ones.
template <class T>
T random_value(std::mt19937_64& random) {
  if constexpr (std::same_as<T, bool>) {
    return random() % 2 == 0;
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
