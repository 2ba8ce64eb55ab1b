#include "apps/bench/cpu_use.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>

namespace tutti::bench {

namespace {

double seconds_of_ticks(double ticks) {
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double cpu_seconds_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  file.ignore(std::numeric_limits<std::streamsize>::max(), ')');  // a name may hold anything else
  std::string skipped;
  for (int field = 3; field < 14; ++field) file >> skipped;
  double user = 0;
  double system = 0;
  file >> user >> system;
  return file ? seconds_of_ticks(user + system) : 0;
}

double machine_cpu_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double waiting = 0;
  double interrupts = 0;
  double soft_interrupts = 0;
  double stolen = 0;
  file >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >>
      stolen;
  if (!file) return 0;
  return seconds_of_ticks(user + nice + system + interrupts + soft_interrupts + stolen);
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
