#pragma once

#include <CLI/App.hpp>

namespace tutti::cli {

/// Adds `tutti bench`. Its failures leave as exceptions.
void add_bench_command(CLI::App& app);

}  // namespace tutti::cli
