#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

namespace tutti::launcher {

/// The processes that have joined as ranks below a worker, which may be a wrapper: of the processes
/// in the worker's process group or below the worker, those whose numbers are `told`, in our pid
/// namespace or in their own, and that run. One that another of them has started is its helper.
[[nodiscard]] std::vector<pid_t> find_ranks(pid_t worker, std::span<const int> told);

}  // namespace tutti::launcher
