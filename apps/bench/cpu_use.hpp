#pragma once

#include <sys/types.h>

#include <vector>

/// CPU time of this process and of others: figures taken while others worked are noisy, and say so.
namespace tutti::bench {

/// CPU time that was used up to a moment, in seconds.
struct CpuUse {
  double when = 0;
  double machine = 0;  ///< on anything, what its host took away included; 0 if /proc does not tell
  double ours = 0;     ///< by this process and those it was asked about
};

/// Each counts once, processes that are gone as 0.
CpuUse cpu_use(std::vector<pid_t> processes);

/// The part of the CPU time between two moments, 0 to 1, that went to processes of others.
double others_between(const CpuUse& before, const CpuUse& after);

}  // namespace tutti::bench
