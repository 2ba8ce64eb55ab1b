#include "os/cpu.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace tutti::os {
namespace {

// cgroup v2: "max 100000" or "200000 100000" in cpu.max of our group and of each one above it.
int quota_cpus() {
  std::ifstream self("/proc/self/cgroup");
  std::string line;
  int least = 0;
  while (std::getline(self, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    std::string path = line.substr(3);
    while (true) {
      std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
      std::string quota;
      double period = 0;
      if (file >> quota >> period && quota != "max" && period > 0) {
        const int cpus = std::max(1, static_cast<int>(std::floor(std::stod(quota) / period)));
        least = least == 0 ? cpus : std::min(least, cpus);
      }
      const auto slash = path.rfind('/');
      if (slash == std::string::npos || path == "/" || path.empty()) break;
      path.resize(slash);
    }
  }
  return least;
}

}  // namespace

int usable_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = 1;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  try {
    const int quota = quota_cpus();
    if (quota > 0) cpus = std::min(cpus, quota);
  } catch (...) {  // an unreadable quota counts as none
  }
  return cpus;
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
