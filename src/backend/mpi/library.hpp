#pragma once

#include <string>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

[[nodiscard]] Result<Api*> open_library();
[[nodiscard]] std::string missing_library();

}  // namespace tutti::mpi
