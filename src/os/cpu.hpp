#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::os {

/// CPUs that this process may use: the smaller of its affinity mask and its cgroup's quota, at
/// least 1.
[[nodiscard]] int usable_cpus() noexcept;
/// Bytes of the cache that a core has for itself, its second level; 1 MiB where it is not known.
[[nodiscard]] std::size_t core_cache_bytes() noexcept;
/// Involuntary context switches of the calling thread so far.
[[nodiscard]] std::int64_t involuntary_switches() noexcept;
/// How often it has slept so far; a yield is no sleep.
[[nodiscard]] std::int64_t voluntary_switches() noexcept;

/// CPU time of all threads of a process so far; nullopt where the process is not to be seen.
[[nodiscard]] std::optional<std::chrono::nanoseconds> process_cpu_time(int pid) noexcept;

/// A clock that stands still between the timer's ticks (1-10 ms), and is read in a few ns.
[[nodiscard]] std::chrono::nanoseconds time_of_last_tick() noexcept;

/// The CPU's own counter, which runs evenly and is the same on all CPUs of a host. Its unit is not
/// known.
[[nodiscard]] inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Tells the CPU that we spin.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Waits until earlier reads have their values, where reading the clock does not.
inline void finish_reads() noexcept {
#if defined(__aarch64__)
  asm volatile("dsb ishld" ::: "memory");
#endif
}

}  // namespace tutti::os
