#pragma once

#include <sys/types.h>

#include <vector>

/// Who used the CPUs: figures taken while others worked are noisy, and say so.
namespace tutti::bench {

/// Seconds of CPU that this machine spent on anything since it started, taken away by its host
/// included. 0 where /proc does not tell.
double machine_cpu_seconds();

/// Seconds of CPU that these processes used so far; those that are gone count as 0.
double cpu_seconds_of(const std::vector<pid_t>& processes);

}  // namespace tutti::bench
