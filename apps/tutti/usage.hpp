#pragma once

#include <CLI/App.hpp>
#include <string>

namespace tutti::cli {

/// Why a command line was refused, and what to do, in one line that begins with the command's name.
/// `app`: what parsed it.
[[nodiscard]] std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tutti::cli
