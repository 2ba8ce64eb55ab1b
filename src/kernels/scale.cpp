#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/complex.hpp"
#include "kernels/denormals.hpp"
#include "kernels/each_float.hpp"
#include "kernels/narrow.hpp"
#include "kernels/reduce.hpp"

namespace tutti::kernels {
namespace {

/// Signed integers come unsigned: they wrap.
template <class T>
void scale_integers(void* dst, const void* src, const void* factor, bool factor_for_each,
                    std::size_t count) {
  static_assert(std::is_unsigned_v<T>);
  const auto load = [](const void* from, std::size_t i) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof value, sizeof value);
    return value;
  };
  if (count == 0) return;
  const T one = load(factor, 0);
  for (std::size_t i = 0; i < count; ++i) {
    // As int, two 16-bit factors would overflow.
    const T value =
        static_cast<T>(std::uint64_t{load(src, i)} * (factor_for_each ? load(factor, i) : one));
    std::memcpy(static_cast<std::byte*>(dst) + i * sizeof value, &value, sizeof value);
  }
}

/// Widened block by block, multiplied, rounded.
template <DType kType>
void scale_narrow(void* dst, const void* src, const void* factor, bool factor_for_each,
                  std::size_t count) {
  constexpr std::size_t kBlock = 512;
  constexpr std::size_t kSize = size_of(kType);
  if (count == 0) return;
  alignas(64) float values[kBlock];
  alignas(64) float factors[kBlock];
  const ConvertFn widen = find_widen(kType);
  const ConvertFn narrow = find_narrow(kType);
  const ScaleFn scale = find_scale_float(DType::float32);
  if (!factor_for_each) widen(factors, factor, 1);
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t now = std::min(kBlock, count - at);
    widen(values, static_cast<const std::byte*>(src) + at * kSize, now);
    if (factor_for_each) {
      widen(factors, static_cast<const std::byte*>(factor) + at * kSize, now);
    }
    scale(values, values, factors, factor_for_each, now);
    narrow(static_cast<std::byte*>(dst) + at * kSize, values, now);
  }
}

template <DType kType>
ScaleFn find_inner() noexcept {
  if constexpr (is_narrow(kType))
    return &scale_narrow<kType>;
  else if constexpr (kType == DType::complex64 || kType == DType::complex128)
    return find_complex_scale(kType);
  else
    return find_scale_float(kType);
}

// All arithmetic is called through pointers to functions, so none of it can move across changes of
// the mode.
template <DType kType>
void scale_floats(void* dst, const void* src, const void* factor, bool factor_for_each,
                  std::size_t count) {
  const ScaleFn scale = find_inner<kType>();
  const FloatMode mode;
  if (mode.usual()) [[likely]]
    return scale(dst, src, factor, factor_for_each, count);
  mode.make_usual();
  scale(dst, src, factor, factor_for_each, count);
  mode.restore();
}

}  // namespace

ScaleFn find_scale(DType dtype) noexcept {
  switch (dtype) {
    case DType::bool_: return nullptr;
    case DType::uint8:
    case DType::int8: return &scale_integers<std::uint8_t>;
    case DType::uint16:
    case DType::int16: return &scale_integers<std::uint16_t>;
    case DType::uint32:
    case DType::int32: return &scale_integers<std::uint32_t>;
    case DType::uint64:
    case DType::int64: return &scale_integers<std::uint64_t>;
    case DType::float16: return &scale_floats<DType::float16>;
    case DType::bfloat16: return &scale_floats<DType::bfloat16>;
    case DType::float32: return &scale_floats<DType::float32>;
    case DType::float64: return &scale_floats<DType::float64>;
    case DType::float8_e4m3: return &scale_floats<DType::float8_e4m3>;
    case DType::float8_e5m2: return &scale_floats<DType::float8_e5m2>;
    case DType::complex64: return &scale_floats<DType::complex64>;
    case DType::complex128: return &scale_floats<DType::complex128>;
  }
  return nullptr;
}

}  // namespace tutti::kernels
