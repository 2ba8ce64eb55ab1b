#pragma once

#include <cstdint>

// Which of Highway's targets are compiled; before every header of Highway. Few, because each costs
// as much to compile as all the rest: AVX2, AVX3 and the baseline; under a sanitizer AVX2 stands
// for all vectors. On aarch64 NEON and SVE of any length: what else SVE2 has, no kernel uses.
#if defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#define HWY_IS_DEBUG_BUILD 0  // its assertions call its library
#include <hwy/detect_targets.h>

namespace tutti::kernels {

/// A set of instructions that kernels are compiled for; a later one is better.
enum class CpuTarget : std::uint8_t { baseline, sve, avx2, avx3 };

/// True if kernels are compiled for it, and the CPU and its operating system run it.
[[nodiscard]] bool runs(CpuTarget target) noexcept;
/// The best one that runs, or the one that a test has chosen.
[[nodiscard]] CpuTarget chosen_target() noexcept;
/// For tests. Not while a kernel is looked up.
void choose_target(CpuTarget target) noexcept;

/// One form of a function per CpuTarget; null where it is not compiled.
template <class Function>
Function form_for_cpu(const Function (&forms)[4]) noexcept {
  return forms[static_cast<int>(chosen_target())];
}

}  // namespace tutti::kernels

/// The form of a function that Highway has compiled once per target. Its own HWY_DYNAMIC_DISPATCH
/// needs its library, and a program may link another version of that.
#define TUTTI_DISPATCH(function)                                                            \
  (::tutti::kernels::form_for_cpu<decltype(&HWY_STATIC_DISPATCH(function))>(                \
      {&HWY_STATIC_DISPATCH(function), HWY_CHOOSE_SVE(function), HWY_CHOOSE_AVX2(function), \
       HWY_CHOOSE_AVX3(function)}))
