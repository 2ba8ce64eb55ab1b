#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>
#include <tutti/export.hpp>
#include <tutti/process_group.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// A communicator (MPI_Comm) as a word, whatever its type in this MPI. Given to init_process_group
/// as InitOptions::backend_options it says whose ranks are the world of the backend "mpi"; it is
/// duplicated, so the program keeps its own. Without it the world is MPI_COMM_WORLD.
template <class Handle>
[[nodiscard]] std::uintptr_t mpi_handle(Handle handle) noexcept {
  static_assert(sizeof(Handle) <= sizeof(std::uintptr_t));
  if constexpr (sizeof(Handle) == sizeof(int)) {
    int word = 0;
    std::memcpy(&word, &handle, sizeof(word));
    return static_cast<std::uintptr_t>(static_cast<std::intptr_t>(word));
  } else {
    std::uintptr_t word = 0;
    std::memcpy(&word, &handle, sizeof(word));
    return word;
  }
}

/// The communicator on which a group on the backend "mpi" runs its operations: `Handle` is
/// MPI_Comm.
///
/// Lifetime: belongs to the group; do not free it, and duplicate it for operations of your own, so
///           that they do not meet those of the group.
/// Errors:   InvalidArgument if the group is on another backend.
template <class Handle>
[[nodiscard]] Handle mpi_communicator(const ProcessGroup& group) {
  static_assert(sizeof(Handle) <= sizeof(std::uintptr_t));
  const std::optional<std::uintptr_t> word =
      GroupAccess::backend(group).capabilities().communicator;
  if (!word) {
    raise(Outcome(Errc::invalid_argument, "mpi_communicator: the group is on the backend '" +
                                              std::string(group.backend()) + "', not on mpi"));
  }
  Handle handle;
  std::memcpy(&handle, &*word, sizeof(handle));  // little endian: the low half of a word is an int
  return handle;
}

}  // namespace v0
}  // namespace tutti
