#include "kernels/cpu_target.hpp"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_bits.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include "kernels/reduce_loops.inc"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace {

struct Band {
  static constexpr bool kBitwise = true;
  template <class D, class V>
  static HWY_INLINE V of(D, V a, V b) {
    return hn::And(a, b);
  }
  template <class T>
  static HWY_INLINE T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Bor {
  static constexpr bool kBitwise = true;
  template <class D, class V>
  static HWY_INLINE V of(D, V a, V b) {
    return hn::Or(a, b);
  }
  template <class T>
  static HWY_INLINE T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Bxor {
  static constexpr bool kBitwise = true;
  template <class D, class V>
  static HWY_INLINE V of(D, V a, V b) {
    return hn::Xor(a, b);
  }
  template <class T>
  static HWY_INLINE T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace

ReducePair best_band(DType dtype) { return find_bitwise<Band>(dtype); }
ReducePair best_bor(DType dtype) { return find_bitwise<Bor>(dtype); }
ReducePair best_bxor(DType dtype) { return find_bitwise<Bxor>(dtype); }

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

ReducePair find_band(DType dtype) noexcept { return TUTTI_DISPATCH(best_band)(dtype); }

ReducePair find_bor(DType dtype) noexcept { return TUTTI_DISPATCH(best_bor)(dtype); }

ReducePair find_bxor(DType dtype) noexcept { return TUTTI_DISPATCH(best_bxor)(dtype); }

}  // namespace tutti::kernels
#endif
