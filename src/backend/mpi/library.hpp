#pragma once

#include <string>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// The MPI of this process; the first call opens it, and it stays. Taken is, in this order: what
/// the process has loaded already (a program that is linked with MPI, mpi4py); TUTTI_MPI_LIBRARY;
/// the library beside the mpiexec that PATH finds; what the loader finds, first that of the
/// launcher. Does not call MPI_Init.
///
/// Threads: any.
/// Errors:  unsupported, with what to install.
[[nodiscard]] Result<Api*> open_library();

/// Why there is none; empty: there is one.
[[nodiscard]] std::string missing_library();

}  // namespace tutti::mpi
