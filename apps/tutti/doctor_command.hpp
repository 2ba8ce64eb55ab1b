#pragma once

#include <CLI/App.hpp>

namespace tutti::cli {

/// Adds `tutti doctor`. `exit_code` becomes 1 when something is wrong.
void add_doctor_command(CLI::App& app, int& exit_code);

}  // namespace tutti::cli
