#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace tutti::kernels {

/// The caller's way of computing with floats: what it says of denormals and rounding.
#if defined(__SSE2__)

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

#elif defined(__aarch64__)

class FloatMode {
 public:
  FloatMode() noexcept : saved_(control()) {}
  [[nodiscard]] bool usual() const noexcept { return (saved_ & kModes) == 0; }
  void make_usual() const noexcept { set_control(saved_ & ~kModes); }
  /// Flags of exceptions stand in another register, FPSR.
  void restore() const noexcept { set_control(saved_); }

  [[nodiscard]] static std::uint64_t control() noexcept {
    std::uint64_t value = 0;
    asm volatile("mrs %0, fpcr" : "=r"(value)::"memory");
    return value;
  }
  static void set_control(std::uint64_t value) noexcept {
    asm volatile("msr fpcr, %0" ::"r"(value) : "memory");
  }

 private:
  // Flush (FZ), rounding (RMode), one NaN for all (DN), and those of FEAT_AFP (FIZ, AH, NEP).
  static constexpr std::uint64_t kModes = 1U << 24 | 3U << 22 | 1U << 25 | 7U;
  std::uint64_t saved_;
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
