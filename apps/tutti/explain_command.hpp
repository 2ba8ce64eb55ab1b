#pragma once

#include <CLI/App.hpp>

namespace tutti::cli {

/// Adds `tutti explain`: the algorithm of a call, why it is taken, and all that moves between the
/// ranks.
void add_explain_command(CLI::App& app, int& exit_code);

}  // namespace tutti::cli
