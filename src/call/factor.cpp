#include "call/factor.hpp"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

#include <tutti/error.hpp>

#include "base/format.hpp"
#include "kernels/narrow.hpp"

namespace tutti::call {
namespace {

[[noreturn]] void refuse_factor(const std::string& text) {
  raise(Outcome(Errc::invalid_argument, "PREMUL_SUM: " + text));
}

template <class T>
void put(void* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

template <class T>
void put_whole(void* to, double value, DType dtype) {
  // 2^digits is exact as a double, the largest value itself may not be.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  const double least = std::is_signed_v<T> ? -end : 0.0;
  if (std::trunc(value) != value || value < least || value >= end)
    refuse_factor(base::format("the factor {:f} is no {}", value, to_string(dtype)));
  put(to, static_cast<T>(value));
}

void put_value(void* to, double value, DType dtype) {
  switch (dtype) {
    case DType::uint8: return put_whole<std::uint8_t>(to, value, dtype);
    case DType::int8: return put_whole<std::int8_t>(to, value, dtype);
    case DType::uint16: return put_whole<std::uint16_t>(to, value, dtype);
    case DType::int16: return put_whole<std::int16_t>(to, value, dtype);
    case DType::uint32: return put_whole<std::uint32_t>(to, value, dtype);
    case DType::int32: return put_whole<std::int32_t>(to, value, dtype);
    case DType::uint64: return put_whole<std::uint64_t>(to, value, dtype);
    case DType::int64: return put_whole<std::int64_t>(to, value, dtype);
    case DType::float32: return put(to, static_cast<float>(value));
    case DType::float64: return put(to, value);
    case DType::complex64: return put(to, std::complex<float>(static_cast<float>(value)));
    case DType::complex128: return put(to, std::complex<double>(value));
    case DType::bool_: return;  // the backend refuses it
    default: break;
  }
  const auto wide = static_cast<float>(value);
  kernels::find_narrow(dtype)(to, &wide, 1);
}

}  // namespace

Factor::Factor(ReduceOp op, DType dtype, std::optional<double> one, const TensorView& each)
    : each_(each), dtype_(dtype), one_(one.has_value()) {
  if (op != ReduceOp::premul_sum) {
    if (one_ || is_given(each))
      refuse_factor(base::format("a factor is given, but the op is {}", to_string(op)));
    return;
  }
  if (one_ == is_given(each)) refuse_factor("give `factor` or `factors`");
  if (one_) put_value(value_.data(), *one, dtype);
}

TensorView Factor::view() noexcept { return one_ ? TensorView(value_.data(), dtype_, 1) : each_; }

}  // namespace tutti::call
