#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tutti::os {

/// CPUs that this process may use: the smaller of its affinity mask and its cgroup's quota, at
/// least 1.
[[nodiscard]] int usable_cpus() noexcept;
/// Involuntary context switches of the calling thread so far.
[[nodiscard]] std::int64_t involuntary_switches() noexcept;
/// How often it has slept so far; a yield is no sleep.
[[nodiscard]] std::int64_t voluntary_switches() noexcept;

/// CPU time of all threads of a process so far; nullopt where the process is not to be seen.
[[nodiscard]] std::optional<std::chrono::nanoseconds> process_cpu_time(int pid) noexcept;

/// A clock that stands still between the timer's ticks (1-10 ms), and is read in a few ns.
[[nodiscard]] std::chrono::nanoseconds time_of_last_tick() noexcept;

/// Tells the CPU that we spin.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace tutti::os
