#include "base/instruction_sets.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tutti::base {

#if defined(__x86_64__)

// __builtin_cpu_supports asks the operating system, too. F16C and LZCNT use no registers of their
// own, and not every compiler knows these names there.
bool has_avx2() noexcept {
  __builtin_cpu_init();
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  const bool lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
  return f16c && lzcnt && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

bool has_avx3() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}

bool has_sve() noexcept { return false; }

#else

bool has_avx2() noexcept { return false; }
bool has_avx3() noexcept { return false; }

#if defined(__aarch64__)
bool has_sve() noexcept { return (::getauxval(AT_HWCAP) & HWCAP_SVE) != 0; }
#else
bool has_sve() noexcept { return false; }
#endif

#endif

}  // namespace tutti::base
