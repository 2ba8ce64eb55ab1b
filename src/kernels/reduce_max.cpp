#include "kernels/cpu_target.hpp"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_max.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include "kernels/reduce_loops.inc"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace {

// Values of which none is greater are equal, or one is NaN. Of equal ones only the signs of zeros
// can differ, and +0 is the greater; a NaN stays one. So the answer is the bits of both together,
// but the sign only if both have it.
struct Max {
  static constexpr bool kBitwise = false;
  template <class D, class V>
  static HWY_INLINE V of(D d, V a, V b) {
    if constexpr (std::floating_point<hn::TFromD<D>>) {
      const V together = hn::Or(hn::AndNot(hn::SignBit(d), hn::Or(a, b)), hn::And(a, b));
      const V neither = hn::IfThenElse(hn::Lt(a, b), b, together);
      return hn::IfThenElse(hn::Lt(b, a), a, neither);
    } else {
      return hn::Max(a, b);
    }
  }
  template <class T>
  static HWY_INLINE T of(T a, T b) {
    if (b < a) return a;
    if (a < b) return b;
    if constexpr (std::floating_point<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
      const Bits x = std::bit_cast<Bits>(a);
      const Bits y = std::bit_cast<Bits>(b);
      return std::bit_cast<T>(((x | y) & ~kSign) | (x & y));
    } else {
      return a;
    }
  }
};

}  // namespace

ReducePair best_max(DType dtype) { return find_ordered<Max>(dtype); }

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

ReducePair find_max(DType dtype) noexcept { return TUTTI_DISPATCH(best_max)(dtype); }

}  // namespace tutti::kernels
#endif
