#include "kernels/cpu_target.hpp"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_min.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include "kernels/reduce_loops.inc"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace {

// Values of which none is less are equal, or one is NaN. Of equal ones only the signs of zeros can
// differ, and -0 is the less; a NaN stays one. In both cases the bits of both together are the
// answer.
struct Min {
  static constexpr bool kBitwise = false;
  template <class D, class V>
  static HWY_INLINE V of(D, V a, V b) {
    if constexpr (std::floating_point<hn::TFromD<D>>) {
      const V neither = hn::IfThenElse(hn::Lt(b, a), b, hn::Or(a, b));
      return hn::IfThenElse(hn::Lt(a, b), a, neither);
    } else {
      return hn::Min(a, b);
    }
  }
  template <class T>
  static HWY_INLINE T of(T a, T b) {
    if (a < b) return a;
    if (b < a) return b;
    if constexpr (std::floating_point<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      return std::bit_cast<T>(std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b));
    } else {
      return a;
    }
  }
};

}  // namespace

ReducePair best_min(DType dtype) { return find_ordered<Min>(dtype); }

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

ReducePair find_min(DType dtype) noexcept { return TUTTI_DISPATCH(best_min)(dtype); }

}  // namespace tutti::kernels
#endif
