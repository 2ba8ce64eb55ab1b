#pragma once

#include <any>

#include <tutti/backends.hpp>

#include "backend/mpi/driver.hpp"

namespace tutti::mpi {

/// The ranks of MPI_COMM_WORLD, or of the communicator that the options name, as a meeting: they
/// tell each other texts by MPI itself.
[[nodiscard]] Result<Meeting> meet(Driver& driver, const std::any& options);

}  // namespace tutti::mpi
