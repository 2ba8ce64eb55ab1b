#pragma once

#include <string>

#include <tutti/error.hpp>

#include "cuda/cuda_api.hpp"

namespace tutti::cuda {

/// True if this machine has an NVIDIA GPU: looks for the driver's files, and loads nothing.
[[nodiscard]] bool has_gpu();

/// The CUDA driver of this process (libcuda.so.1, or TUTTI_CUDA_LIBRARY); the first call opens it,
/// and it stays. Does not call cuInit, after which a forked child could not use CUDA.
///
/// Threads: any.
/// Errors:  unsupported, with what to install. Also where the machine has no GPU.
[[nodiscard]] Result<CudaApi*> driver();

/// The file that a library was loaded from, for messages; `file`: as it was asked for.
[[nodiscard]] std::string path_of(void* library, const std::string& file);

}  // namespace tutti::cuda
