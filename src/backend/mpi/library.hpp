#pragma once

#include <string>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// The MPI of this process; the first call opens it, and it stays. Does not call MPI_Init. It looks
/// in this order: a library that the process has loaded already (a program that is linked with MPI,
/// mpi4py); TUTTI_MPI_LIBRARY; beside the mpiexec that PATH finds; where the loader looks.
///
/// Threads: any.
/// Errors:  unsupported, with what to install.
[[nodiscard]] Result<Api*> open_library();

/// Why there is none; empty: there is one.
[[nodiscard]] std::string missing_library();

}  // namespace tutti::mpi
