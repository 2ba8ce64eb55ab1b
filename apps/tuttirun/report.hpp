#pragma once

#include <chrono>
#include <string>

#include "workers.hpp"

namespace tutti::launcher {

/// "exit code 3", "SIGKILL".
std::string describe(const os::ExitStatus& end);

/// How it ended, with the error that it has told: "exit code 1: ValueError: my bug (train.py:42)".
std::string describe_failure(const Worker& worker);

/// A report for people: the errors that the workers have told, the worker that failed first, and
/// how all others ended. `nnodes`: of so many nodes, each with as many workers.
std::string failure_table(const Workers& workers, const Worker& first,
                          std::chrono::steady_clock::time_point start, int nnodes);

}  // namespace tutti::launcher
