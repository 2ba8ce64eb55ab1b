#pragma once

#include <string>

#include <tutti/error.hpp>

#include "backend/nccl/api.hpp"

namespace tutti::nccl {

/// The libraries that the backend needs.
struct Libraries {
  Api* nccl = nullptr;
  CudaApi* cuda = nullptr;
};

/// Those of this process; the first call opens them, and they stay. Does not call cuInit, after
/// which a forked child could not use CUDA. NCCL is looked for in this order: a library that the
/// process has loaded already; TUTTI_NCCL_LIBRARY; PyPI's folder nvidia/nccl/lib beside this
/// plug-in or beside torch; where the loader looks.
///
/// Threads: any.
/// Errors:  unsupported, with what to install.
[[nodiscard]] Result<Libraries> open_libraries();

/// Why they cannot be used; empty: they can. Also looks whether the machine has a GPU.
[[nodiscard]] std::string missing_libraries();

}  // namespace tutti::nccl
