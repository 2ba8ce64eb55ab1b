#include "os/cpu.hpp"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "os/cpu_quota.hpp"
#include "os/cpu_set.hpp"

namespace tutti::os {

int usable_cpus() noexcept {
  try {
    const int allowed = static_cast<int>(std::max<std::size_t>(1, affinity_of(0).count()));
    const std::optional<CpuQuota> quota = cpu_quota();
    return quota ? std::min(allowed, quota->cpus) : allowed;
  } catch (...) {  // no memory to look with
    return 1;
  }
}

std::size_t core_cache_bytes() noexcept {
  constexpr std::size_t kUnknown = std::size_t{1} << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kUnknown;
#else
  return kUnknown;
#endif
}

std::int64_t involuntary_switches() noexcept {
  rusage usage = {};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

std::int64_t voluntary_switches() noexcept {
  rusage usage = {};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

std::chrono::nanoseconds time_of_last_tick() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::optional<std::chrono::nanoseconds> process_cpu_time(int pid) noexcept {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
    return std::nullopt;
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace tutti::os
