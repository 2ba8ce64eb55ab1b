#pragma once

#include <any>
#include <chrono>
#include <optional>
#include <vector>

#include <tutti/backend/registry.hpp>

#include "backend/mpi/driver.hpp"

namespace tutti::mpi {

/// A communicator of ours with the ranks of `base`, whose errors are returned. Blocks until all of
/// them call it too, or the deadline.
[[nodiscard]] Outcome duplicate(Driver& driver, Comm base,
                                std::chrono::steady_clock::time_point deadline, Comm& made);

/// The ranks that make a world.
struct Ranks {
  Comm comm{};
  std::optional<std::vector<int>> members;  ///< of `comm`; absent: all
};

/// From InitOptions::backend_options: nothing (MPI_COMM_WORLD), the handle of a communicator, ranks
/// of MPI_COMM_WORLD, or both.
[[nodiscard]] Result<Ranks> ranks_of(Api& api, const std::any& options);

/// Ranks of MPI_COMM_WORLD, or of the communicator that the options name, find each other by MPI:
/// it tells them their numbers, and carries their texts.
[[nodiscard]] Result<BackendRendezvous> rendezvous(Driver& driver, const std::any& options,
                                                   std::chrono::steady_clock::time_point deadline);

}  // namespace tutti::mpi
