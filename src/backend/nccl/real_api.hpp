#pragma once

#include <memory>
#include <string>

#include <tutti/error.hpp>

#include "backend/nccl/api.hpp"

namespace tutti::nccl {

/// NCCL out of a library that is open; unsupported if it is too old. `path`: for messages.
[[nodiscard]] Result<std::unique_ptr<Api>> real_nccl(void* library, std::string path);

}  // namespace tutti::nccl
