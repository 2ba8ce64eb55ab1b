#pragma once

// Which CPU targets are compiled; stands before every header of Highway. Few, because each costs as
// much to compile as all the rest: AVX2, AVX3 and the baseline; under a sanitizer AVX2 stands for
// all vectors. On aarch64 NEON and SVE of any length: what else SVE2 has, no kernel uses.
#if defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
