#pragma once

#include <memory>
#include <string>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// The functions of an open MPI library, whichever of the three ABIs it has: its symbols tell.
///
/// Errors: unsupported, with what it lacks.
[[nodiscard]] Result<std::unique_ptr<Api>> real_api(void* library, std::string path);

}  // namespace tutti::mpi
