#pragma once

#include <tutti/arguments.hpp>

#include "backend/mpi/api.hpp"
#include "backend/mpi/operation.hpp"
#include "backend/mpi/value_types.hpp"

namespace tutti::mpi {

/// The communicator of an operation, and this rank in it.
struct Place {
  Api& api;
  ValueTypes& types;
  Comm comm{};
  Comm compare{};  ///< of comparisons, whose tags are below 1024 * 31, and of blocks
  int rank = 0;
  int size = 1;
  int largest_tag = 0;
};

/// Prepares the memory of a call: copies tensors whose elements do not lie in a row, and multiplies
/// the inputs of PREMUL_SUM. Afterwards the caller's lists are not needed any more.
void prepare(MpiOperation& op, int rank, int size);

/// MPI's tag for a caller's tag, which is no any_tag; -1: this MPI has none for it.
[[nodiscard]] int tag_of(const Place& place, int tag) noexcept;

/// The largest tag that a caller may choose with this MPI.
[[nodiscard]] int largest_tag_of_callers(const Place& place) noexcept;

/// Gives the operation to MPI: its requests are in `op.requests` then. MPI's error code, or 0.
[[nodiscard]] int start(const Place& place, MpiOperation& op);

/// The work after all data have come: divides for AVG, copies to the caller's memory.
void finish(MpiOperation& op, int rank, int size) noexcept;

}  // namespace tutti::mpi
