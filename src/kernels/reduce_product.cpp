#include "kernels/cpu_target.hpp"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_product.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include "kernels/reduce_loops.inc"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace {

struct Product {
  static constexpr bool kBitwise = false;
  template <class D, class V>
  static HWY_INLINE V of(D d, V a, V b) {
#if HWY_TARGET != HWY_SCALAR
    using T = hn::TFromD<D>;
    if constexpr (std::integral<T> && sizeof(T) == 1) {
      const hn::Repartition<std::uint16_t, D> wide;
      const auto a2 = hn::BitCast(wide, a);
      const auto b2 = hn::BitCast(wide, b);
      const auto even = hn::And(hn::Mul(a2, b2), hn::Set(wide, std::uint16_t{0x00ff}));
      const auto odd = hn::Mul(hn::ShiftRight<8>(a2), hn::ShiftRight<8>(b2));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
    } else if constexpr (std::integral<T> && sizeof(T) == 8) {
      const hn::Repartition<std::uint32_t, D> half;
      const auto a_low = hn::BitCast(half, a);
      const auto b_low = hn::BitCast(half, b);
      const auto a_high = hn::BitCast(half, hn::ShiftRight<32>(a));
      const auto b_high = hn::BitCast(half, hn::ShiftRight<32>(b));
      const auto cross = hn::Add(hn::MulEven(a_low, b_high), hn::MulEven(a_high, b_low));
      return hn::Add(hn::MulEven(a_low, b_low), hn::ShiftLeft<32>(cross));
    } else {
      return hn::Mul(a, b);
    }
#else
    return hn::Mul(a, b);
#endif
  }
  template <class T>
  static HWY_INLINE T of(T a, T b) {
    if constexpr (std::integral<T>) {
      return static_cast<T>(std::uint64_t{a} * b);  // as int, two 16-bit factors would overflow
    } else {
      return a * b;
    }
  }
};

}  // namespace

ReducePair best_product(DType dtype) {
  const ReducePair pair = find_float<Product>(dtype);
  return pair.plain != nullptr ? pair : find_unsigned<Product>(dtype);
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

ReducePair find_product(DType dtype) noexcept { return TUTTI_DISPATCH(best_product)(dtype); }

}  // namespace tutti::kernels
#endif
