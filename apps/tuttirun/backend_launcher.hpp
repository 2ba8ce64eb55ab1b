#pragma once

#include <tutti/error.hpp>

#include "options.hpp"

namespace tutti::launcher {

/// Sets TUTTI_BACKEND_PATH for the workers, since a program with a static tutti in it does not know
/// where the prefix of that tutti lies now.
void hand_down_plugins();

/// Sets TUTTI_BACKEND for the workers. Where the backend has a launcher of its own (mpiexec), this
/// process becomes that launcher and this does not return.
///
/// Errors: invalid_argument for a backend that is not there, or for options which its launcher
/// cannot
///         follow; unsupported if that launcher is missing.
Outcome hand_over(const Options& options);

}  // namespace tutti::launcher
