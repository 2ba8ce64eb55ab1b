#pragma once

#include <any>
#include <chrono>

#include <tutti/backends.hpp>

#include "backend/mpi/driver.hpp"

namespace tutti::mpi {

/// A communicator of ours with the ranks of `base`, whose errors are returned. Blocks until all of
/// them call it too, or the deadline.
[[nodiscard]] Status duplicate(Driver& driver, Comm base,
                               std::chrono::steady_clock::time_point deadline, Comm& made);

/// The ranks of MPI_COMM_WORLD, or of the communicator that the options name, as a meeting: they
/// tell each other texts by MPI itself.
[[nodiscard]] Result<Meeting> meet(Driver& driver, const std::any& options,
                                   std::chrono::steady_clock::time_point deadline);

}  // namespace tutti::mpi
