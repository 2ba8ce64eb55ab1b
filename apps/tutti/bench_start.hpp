#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace tutti::cli {

/// Adds `start` to `tutti bench`: how long jobs take from the exec of tuttirun to their clean end,
/// with one barrier. The function that is returned runs the command; `in_job`: this process is a
/// rank of a job that it has started.
std::function<void(bool in_job)> add_bench_start(CLI::App& bench);

}  // namespace tutti::cli
