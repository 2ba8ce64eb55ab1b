#pragma once

#include <CLI/App.hpp>

namespace tutti::cli {

/// Adds `tutti status`: what the ranks of a running job do, or which jobs run. `exit_code` becomes
/// 1 where there is nothing to see.
void add_status_command(CLI::App& app, int& exit_code);

}  // namespace tutti::cli
