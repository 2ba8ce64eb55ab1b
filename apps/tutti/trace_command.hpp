#pragma once

#include <CLI/App.hpp>

namespace tutti::cli {

/// Adds `tutti trace`: records of ranks become one trace for a viewer. `exit_code` becomes 1 where
/// there is nothing to read.
void add_trace_command(CLI::App& app, int& exit_code);

}  // namespace tutti::cli
