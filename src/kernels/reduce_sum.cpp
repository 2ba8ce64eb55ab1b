#include "kernels/cpu_target.hpp"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_sum.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include "kernels/reduce_loops.inc"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace {

struct Sum {
  static constexpr bool kBitwise = false;
  template <class D, class V>
  static HWY_INLINE V of(D, V a, V b) {
    return hn::Add(a, b);
  }
  template <class T>
  static HWY_INLINE T of(T a, T b) {
    return static_cast<T>(a + b);  // integers come unsigned: they wrap
  }
};

}  // namespace

ReducePair best_sum(DType dtype) {
  const ReducePair pair = find_float<Sum>(dtype);
  return pair.plain != nullptr ? pair : find_unsigned<Sum>(dtype);
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

ReducePair find_sum(DType dtype) noexcept { return TUTTI_DISPATCH(best_sum)(dtype); }

}  // namespace tutti::kernels
#endif
