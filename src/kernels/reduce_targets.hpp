#pragma once

// Which CPU targets are compiled; stands before every header of Highway. Few, because each costs as
// much to compile as all the rest: AVX2, AVX3 and the baseline; under a sanitizer AVX2 stands for
// all vectors.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
