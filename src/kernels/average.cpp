#include <cstring>
#include <type_traits>

#include "kernels/blocked.hpp"
#include "kernels/each_float.hpp"
#include "kernels/narrow.hpp"
#include "kernels/reduce_find.hpp"

namespace tutti::kernels {
namespace {

template <class T>
void divide(void* to, const void* from, std::size_t count, std::int64_t divisor) {
  // Wide, as the number of ranks may be greater than what T holds.
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  const auto by = static_cast<Wide>(divisor);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof value, sizeof value);
    value = static_cast<T>(static_cast<Wide>(value) / by);
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof value, &value, sizeof value);
  }
}

DivideFn find_divide(DType dtype) noexcept {
  switch (dtype) {
    case DType::uint8: return &divide<std::uint8_t>;
    case DType::int8: return &divide<std::int8_t>;
    case DType::uint16: return &divide<std::uint16_t>;
    case DType::int16: return &divide<std::int16_t>;
    case DType::uint32: return &divide<std::uint32_t>;
    case DType::int32: return &divide<std::int32_t>;
    case DType::uint64: return &divide<std::uint64_t>;
    case DType::int64: return &divide<std::int64_t>;
    default: return find_divide_float(dtype);
  }
}

template <DType kType>
BlockedReduction blocked() noexcept {
  constexpr DType kInner = is_narrow(kType) ? DType::float32 : kType;
  return {.outer = size_of(kType),
          .inner = size_of(kInner),
          .prepare = find_widen(kType),
          .combine = find_sum(kInner).plain,
          .divide = find_divide(kInner),
          .finish = find_narrow(kType),
          .floats = kType >= DType::float16};
}

/// `kEach`: numbers in an element.
template <DType kType, std::size_t kEach>
void average(void* dst, const void* const* sources, int k, std::size_t count,
             std::int64_t divisor) {
  reduce_blocked(blocked<kType>(), BlockedCall{dst, sources, k, count * kEach, divisor});
}

}  // namespace

AverageFn find_average(DType dtype) noexcept {
  switch (dtype) {
    case DType::bool_: return nullptr;
    case DType::uint8: return &average<DType::uint8, 1>;
    case DType::int8: return &average<DType::int8, 1>;
    case DType::uint16: return &average<DType::uint16, 1>;
    case DType::int16: return &average<DType::int16, 1>;
    case DType::uint32: return &average<DType::uint32, 1>;
    case DType::int32: return &average<DType::int32, 1>;
    case DType::uint64: return &average<DType::uint64, 1>;
    case DType::int64: return &average<DType::int64, 1>;
    case DType::float16: return &average<DType::float16, 1>;
    case DType::bfloat16: return &average<DType::bfloat16, 1>;
    case DType::float32: return &average<DType::float32, 1>;
    case DType::float64: return &average<DType::float64, 1>;
    case DType::float8_e4m3: return &average<DType::float8_e4m3, 1>;
    case DType::float8_e5m2: return &average<DType::float8_e5m2, 1>;
    case DType::complex64: return &average<DType::float32, 2>;
    case DType::complex128: return &average<DType::float64, 2>;
  }
  return nullptr;
}

}  // namespace tutti::kernels
