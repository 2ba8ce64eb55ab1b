#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Element types.
enum class DType : std::uint8_t {
  bool_ = 0,
  uint8 = 1,
  int8 = 2,
  uint16 = 3,
  int16 = 4,
  uint32 = 5,
  int32 = 6,
  uint64 = 7,
  int64 = 8,
  float16 = 9,
  bfloat16 = 10,
  float32 = 11,
  float64 = 12,
  float8_e4m3 = 13,  ///< torch's float8_e4m3fn: no infinities, up to 448
  float8_e5m2 = 14,
  complex64 = 15,
  complex128 = 16,
};

/// Number of dtypes; every valid DType is below it.
inline constexpr int kDTypeCount = 17;

namespace detail {
// Not in the function, which would build it on the stack at each call.
inline constexpr std::uint8_t kDTypeSizes[kDTypeCount] = {1, 1, 1, 2, 2, 4, 4, 8, 8,
                                                          2, 2, 4, 8, 1, 1, 8, 16};
}  // namespace detail

/// Bytes per element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  return detail::kDTypeSizes[static_cast<int>(dtype)];
}

/// Torch's name without the prefix: "float32".
[[nodiscard]] std::string_view to_string(DType dtype) noexcept;

/// The DType of a C++ type; absent for types that can be moved but have no arithmetic here. `char`
/// is int8 and `wchar_t` int32 everywhere, whatever sign they have on this processor.
template <class T>
[[nodiscard]] constexpr std::optional<DType> dtype_of() noexcept {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return DType::bool_;
  else if constexpr (std::is_same_v<U, float>)
    return DType::float32;
  else if constexpr (std::is_same_v<U, double>)
    return DType::float64;
  else if constexpr (std::is_same_v<U, std::complex<float>>)
    return DType::complex64;
  else if constexpr (std::is_same_v<U, std::complex<double>>)
    return DType::complex128;
  else if constexpr (std::is_same_v<U, char>)
    return DType::int8;  // as on x86-64; on aarch64 it has no sign
  else if constexpr (std::is_same_v<U, wchar_t>)
    return sizeof(U) == 4 ? DType::int32 : DType::int16;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 1)
    return std::is_signed_v<U> ? DType::int8 : DType::uint8;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 2)
    return std::is_signed_v<U> ? DType::int16 : DType::uint16;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 4)
    return std::is_signed_v<U> ? DType::int32 : DType::uint32;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 8)
    return std::is_signed_v<U> ? DType::int64 : DType::uint64;
#if defined(__STDCPP_FLOAT16_T__)
  else if constexpr (std::is_same_v<U, std::float16_t>)
    return DType::float16;
#endif
#if defined(__STDCPP_BFLOAT16_T__)
  else if constexpr (std::is_same_v<U, std::bfloat16_t>)
    return DType::bfloat16;
#endif
  else
    return std::nullopt;
}

}  // namespace v0
}  // namespace tutti
