#include "kernels/each_float.hpp"

#include "kernels/cpu_target.hpp"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/each_float.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// One vector of results from one of operands and one of factors; `kEach` says whether there is a
/// factor for each element.
template <class T, bool kEach, class Op>
HWY_INLINE void for_each(T* to, const T* from, const T* factor, std::size_t count, Op op) {
  if (count == 0) return;  // then the pointers may be null
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
  T one_factor;
  std::memcpy(&one_factor, factor, sizeof(T));
  const auto one = hn::Set(d, one_factor);
  const auto step = [&](T* out, const T* in, const T* factors) HWY_ATTR {
    const auto by = kEach ? hn::LoadU(d, factors) : one;
    const auto result = op(hn::LoadU(d, in), by);
    hn::StoreU(hn::IfThenElse(hn::IsNaN(result), nan, result), d, out);
  };
  std::size_t i = 0;
  for (; count - i >= lanes; i += lanes) step(to + i, from + i, kEach ? factor + i : factor);
  if (i == count) return;
  // The elements that do not fill a vector go through memory of our own.
  HWY_ALIGN T rest[hn::MaxLanes(d)] = {};
  HWY_ALIGN T factors[hn::MaxLanes(d)] = {};
  const std::size_t bytes = (count - i) * sizeof(T);
  std::memcpy(rest, from + i, bytes);
  if constexpr (kEach) std::memcpy(factors, factor + i, bytes);
  step(rest, rest, factors);
  std::memcpy(to + i, rest, bytes);
}

template <class T>
void divide(void* to, const void* from, std::size_t count, std::int64_t divisor) {
  const T by = static_cast<T>(divisor);
  for_each<T, false>(static_cast<T*>(to), static_cast<const T*>(from), &by, count,
                     [](auto a, auto b) HWY_ATTR { return hn::Div(a, b); });
}

template <class T>
void scale(void* dst, const void* src, const void* factor, bool factor_for_each,
           std::size_t count) {
  auto* const to = static_cast<T*>(dst);
  const auto* const from = static_cast<const T*>(src);
  const auto* const by = static_cast<const T*>(factor);
  const auto multiply = [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); };
  if (factor_for_each)
    for_each<T, true>(to, from, by, count, multiply);
  else
    for_each<T, false>(to, from, by, count, multiply);
}

}  // namespace

DivideFn best_divide(DType dtype) {
  if (dtype == DType::float32) return &divide<float>;
  if (dtype == DType::float64) return &divide<double>;
  return nullptr;
}

ScaleFn best_scale(DType dtype) {
  if (dtype == DType::float32) return &scale<float>;
  if (dtype == DType::float64) return &scale<double>;
  return nullptr;
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

DivideFn find_divide_float(DType dtype) noexcept { return TUTTI_DISPATCH(best_divide)(dtype); }

ScaleFn find_scale_float(DType dtype) noexcept { return TUTTI_DISPATCH(best_scale)(dtype); }

}  // namespace tutti::kernels
#endif
