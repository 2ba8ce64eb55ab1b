#pragma once

#include <memory>
#include <string>

#include <tutti/error.hpp>

#include "cuda/cuda_api.hpp"

namespace tutti::cuda {

/// The CUDA driver out of a library that is open; unsupported if it is too old. `path`: for
/// messages.
[[nodiscard]] Result<std::unique_ptr<CudaApi>> real_cuda(void* library, std::string path);

}  // namespace tutti::cuda
