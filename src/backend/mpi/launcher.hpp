#pragma once

#include <string>

#include <tutti/backend/registry.hpp>
#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// The mpiexec or mpirun that starts ranks of this library: the one in `bin` beside the library's
/// folder, Debian's name for it, or the one of PATH. Each is asked for its version, so that none of
/// another MPI is taken: its ranks would not find each other.
///
/// Errors: unsupported, with the programs that were looked at.
[[nodiscard]] Result<std::string> find_launcher(const LibraryInfo& library);

/// The command that starts so many ranks of this library on this host.
[[nodiscard]] Result<LaunchCommand> launch_command(const LibraryInfo& library, int ranks);

}  // namespace tutti::mpi
