#pragma once

#include <cstdint>

namespace tutti::os {

/// CPUs that this process may use: the smaller of its affinity mask and its cgroup's quota, at
/// least 1.
[[nodiscard]] int usable_cpus() noexcept;
/// Involuntary context switches of the calling thread so far.
[[nodiscard]] std::int64_t involuntary_switches() noexcept;

/// Tells the CPU that we spin.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace tutti::os
