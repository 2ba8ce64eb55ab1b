#pragma once

#include <any>
#include <chrono>
#include <optional>
#include <vector>

#include <tutti/backends.hpp>

#include "backend/mpi/driver.hpp"

namespace tutti::mpi {

/// A communicator of ours with the ranks of `base`, whose errors are returned. Blocks until all of
/// them call it too, or the deadline.
[[nodiscard]] Status duplicate(Driver& driver, Comm base,
                               std::chrono::steady_clock::time_point deadline, Comm& made);

/// Whose ranks make the world.
struct Ranks {
  Comm comm{};
  std::optional<std::vector<int>> members;  ///< of `comm`; absent: all
};

/// What InitOptions::backend_options says of it: nothing (MPI_COMM_WORLD), the handle of a
/// communicator, ranks of MPI_COMM_WORLD, or both.
[[nodiscard]] Result<Ranks> ranks_of(Api& api, const std::any& options);

/// The ranks of MPI_COMM_WORLD, or of the communicator that the options name, as a meeting: they
/// tell each other texts by MPI itself.
[[nodiscard]] Result<Meeting> meet(Driver& driver, const std::any& options,
                                   std::chrono::steady_clock::time_point deadline);

}  // namespace tutti::mpi
