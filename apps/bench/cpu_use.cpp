#include "apps/bench/cpu_use.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include "os/process_stat.hpp"

namespace tutti::bench {

namespace {

double seconds_of_ticks(double ticks) {
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double cpu_seconds_of(pid_t process) {
  const auto stat = os::process_stat(process);
  return stat ? seconds_of_ticks(static_cast<double>(stat->user_ticks + stat->system_ticks)) : 0;
}

double machine_cpu_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  constexpr int kIdle = 3;  // it and the next one, waiting, are no use of the CPU
  constexpr int kFields = 8;
  double used = 0;
  for (int field = 0; field < kFields; ++field) {
    double ticks = 0;
    file >> ticks;
    if (field != kIdle && field != kIdle + 1) used += ticks;
  }
  return file ? seconds_of_ticks(used) : 0;
}

}  // namespace

CpuUse cpu_use(std::vector<pid_t> processes) {
  processes.push_back(::getpid());
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  CpuUse use{now.count(), machine_cpu_seconds(), 0};
  for (const pid_t process : processes) use.ours += cpu_seconds_of(process);
  return use;
}

double others_between(const CpuUse& before, const CpuUse& after) {
  // All CPUs, as in machine_cpu_seconds: this process may be bound to some of them.
  const auto cpus = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  const double all = (after.when - before.when) * cpus;
  const double others = (after.machine - before.machine) - (after.ours - before.ours);
  return all > 0 ? std::clamp(others / all, 0.0, 1.0) : 0;
}

}  // namespace tutti::bench
