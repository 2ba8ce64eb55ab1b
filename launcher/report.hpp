#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "workers.hpp"

namespace tutti::launcher {

/// "exit code 3", "SIGKILL".
std::string describe(const os::ExitStatus& end);

/// A report for people: the worker that failed first, and how all others ended.
std::string failure_table(const std::vector<std::unique_ptr<Worker>>& workers, const Worker& first,
                          std::chrono::steady_clock::time_point start);

}  // namespace tutti::launcher
