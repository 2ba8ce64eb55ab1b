#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tutti::kernels {

#if defined(__SSE2__)

/// The caller's way of computing with floats: what it says of denormals and rounding.
class FloatMode {
 public:
  FloatMode() noexcept : saved_(_mm_getcsr()) {}
  /// Denormals count and values round to nearest, as everywhere by default.
  [[nodiscard]] bool usual() const noexcept { return (saved_ & kModes) == 0; }
  void make_usual() const noexcept { _mm_setcsr(saved_ & ~kModes); }
  /// Flags of exceptions that were raised meanwhile stay.
  void restore() const noexcept { _mm_setcsr(saved_ | (_mm_getcsr() & kFlags)); }

 private:
  static constexpr unsigned kModes = 0x8000U | 0x6000U | 0x0040U;  // flush, rounding, as zero
  static constexpr unsigned kFlags = 0x003fU;
  unsigned saved_;
};

#else

class FloatMode {
 public:
  [[nodiscard]] static bool usual() noexcept { return true; }
  static void make_usual() noexcept {}
  static void restore() noexcept {}
};

#endif

}  // namespace tutti::kernels
