#pragma once

#include <tutti/collective.hpp>

#include "backend/mpi/api.hpp"
#include "backend/mpi/operation.hpp"
#include "backend/mpi/value_types.hpp"

namespace tutti::mpi {

/// Where an operation runs.
struct Place {
  Api& api;
  ValueTypes& types;
  Comm comm{};
  int rank = 0;
  int size = 1;
  int largest_tag = 0;
};

/// The memory of a call: copies of what does not lie in a row, the inputs of PREMUL_SUM times their
/// factor. The lists of the caller are not needed any more.
void prepare(Operation& op, int rank, int size);

/// The tag by which a message of a caller's tag travels; -1: this MPI has no such tag.
[[nodiscard]] int tag_of(const Place& place, int tag) noexcept;

/// The largest tag that a caller may choose with this MPI.
[[nodiscard]] int largest_tag_of_callers(const Place& place) noexcept;

/// Gives the operation to MPI: its requests are in `op.requests` then. MPI's error code, or 0.
[[nodiscard]] int start(const Place& place, Operation& op);

/// What is to be done when all data have come: the division of AVG, copies to the caller's memory.
void finish(Operation& op, int rank, int size) noexcept;

}  // namespace tutti::mpi
