#include "add_rms_norm.hpp"

#include <bit>
#include <cmath>

// Compiled once for each kind of CPU, and the loader chooses. The flags of this file
// (CMakeLists.txt) keep products and sums apart, so that all of them give the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TUTTI_FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TUTTI_FOR_EACH_CPU
#endif

namespace tutti::torch_plugin {
namespace {

/// As many sums as the widest vector has lanes: the order of additions does not depend on the CPU.
constexpr std::int64_t kLanes = 16;

[[gnu::always_inline]] inline float widen(float value) noexcept { return value; }
[[gnu::always_inline]] inline float widen(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

template <class T>
T narrow(float value) noexcept;
template <>
[[gnu::always_inline]] inline float narrow(float value) noexcept {
  return value;
}
/// To nearest, ties to even. A NaN comes from 16 bits, so its lower half is 0 and it stays one.
template <>
[[gnu::always_inline]] inline std::uint16_t narrow(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

template <class T>
[[gnu::always_inline]] inline void rows(T* __restrict values, T* __restrict residual,
                                        const T* __restrict weight, std::int64_t columns, float eps,
                                        std::int64_t begin, std::int64_t end) noexcept {
  const std::int64_t whole = columns - columns % kLanes;
  for (std::int64_t row = begin; row < end; ++row) {
    T* __restrict const value = values + row * columns;
    T* __restrict const kept = residual + row * columns;
    float squares[kLanes] = {};
    for (std::int64_t at = 0; at < whole; at += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const T sum = narrow<T>(widen(value[at + lane]) + widen(kept[at + lane]));
        kept[at + lane] = sum;
        squares[lane] += widen(sum) * widen(sum);
      }
    }
    float all = 0;
    for (std::int64_t at = whole; at < columns; ++at) {
      kept[at] = narrow<T>(widen(value[at]) + widen(kept[at]));
      all += widen(kept[at]) * widen(kept[at]);
    }
    for (const float one : squares) all += one;
    const float factor = 1 / std::sqrt(all / static_cast<float>(columns) + eps);
    for (std::int64_t at = 0; at < columns; ++at)
      value[at] = narrow<T>(widen(kept[at]) * factor * widen(weight[at]));
  }
}

}  // namespace

TUTTI_FOR_EACH_CPU
void add_rms_norm(std::uint16_t* values, std::uint16_t* residual, const std::uint16_t* weight,
                  std::int64_t columns, float eps, std::int64_t begin, std::int64_t end) noexcept {
  rows(values, residual, weight, columns, eps, begin, end);
}

TUTTI_FOR_EACH_CPU
void add_rms_norm(float* values, float* residual, const float* weight, std::int64_t columns,
                  float eps, std::int64_t begin, std::int64_t end) noexcept {
  rows(values, residual, weight, columns, eps, begin, end);
}

}  // namespace tutti::torch_plugin
