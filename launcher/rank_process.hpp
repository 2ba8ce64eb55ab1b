#pragma once

#include <sys/types.h>

#include <optional>

namespace tutti::launcher {

/// The process that has joined as a rank below a worker, which may be a wrapper: of the processes
/// in the worker's process group or below the worker, the one whose number is `told`, in our pid
/// namespace or in its own. Nothing if it has ended, or if none has joined (`told` is 0).
[[nodiscard]] std::optional<pid_t> find_rank(pid_t worker, pid_t told);

}  // namespace tutti::launcher
