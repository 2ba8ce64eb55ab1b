#include "backend/native/cpu_contention.hpp"

#include <algorithm>
#include <utility>

namespace tutti::native {

using engine::TimePoint;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

// While a rank's yields are long, all CPUs that the ranks can fill are busy. If the ranks get less
// than this share of their time, other processes have the rest. (An idle machine's own work takes
// some per cent.)
constexpr double kRanksShare = 0.8;
// The time between two samples. The kernel updates the CPU time of running threads at its timer
// ticks (1-10 ms), so a shorter time says little.
constexpr auto kShortest = milliseconds(100);
constexpr auto kLongest = milliseconds(1000);
// After this many waits it looks again for other processes, which costs kShortest. Each time that
// it still finds some, the number doubles.
constexpr int kFewWaits = 16;
constexpr int kMostWaits = 1024;
// With more processes a look at all of them costs more than it can save.
constexpr std::size_t kMostProcesses = 64;

}  // namespace

CpuContention::CpuContention(int cpus, std::vector<int> processes, CpuTime cpu_time, Sleeps sleeps)
    : cpus_(std::min(cpus, static_cast<int>(processes.size()))),
      processes_(std::move(processes)),
      cpu_time_(cpu_time),
      sleeps_(sleeps),
      next_waits_(kFewWaits) {
  std::sort(processes_.begin(), processes_.end());
  processes_.erase(std::unique(processes_.begin(), processes_.end()), processes_.end());
  if (processes_.size() > kMostProcesses) processes_.clear();
}

std::optional<nanoseconds> CpuContention::used() const noexcept {
  nanoseconds all{0};
  for (const int pid : processes_) {
    const std::optional<nanoseconds> one = cpu_time_(pid);
    if (!one) return std::nullopt;
    all += *one;
  }
  return all;
}

bool CpuContention::after_long_yield(TimePoint now) noexcept {
  // The look at all processes is a system call for each.
  if (processes_.empty() || (last_ && now - last_->when < kShortest)) return false;
  const std::optional<nanoseconds> used_now = used();
  if (!used_now) return false;
  const Sample sample{now, *used_now, sleeps_()};
  const auto last = std::exchange(last_, sample);
  // If this thread has slept, the sample does not show whether other threads had to wait.
  if (!last || now - last->when > kLongest || sample.sleeps != last->sleeps) return false;
  const double most =
      static_cast<double>(cpus_) * std::chrono::duration<double>(now - last->when).count();
  if (std::chrono::duration<double>(*used_now - last->used).count() >= kRanksShare * most) {
    next_waits_ = kFewWaits;
    return false;
  }
  waits_ = next_waits_;
  next_waits_ = std::min(2 * next_waits_, kMostWaits);
  last_.reset();  // a thread that sleeps uses no CPU
  return true;
}

}  // namespace tutti::native
