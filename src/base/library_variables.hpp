#pragma once

#include <array>

namespace tutti::base {

/// Where backends look for libraries, before there is a world that has settings.
inline constexpr std::array kLibraryVariables = {"TUTTI_BACKEND_PATH", "TUTTI_CUDA_LIBRARY",
                                                 "TUTTI_MPI_LIBRARY", "TUTTI_NCCL_LIBRARY"};

/// Read by adapters to other software (integrations/).
inline constexpr std::array kIntegrationVariables = {"TUTTI_JAX_SPLIT_TIMEOUT"};

}  // namespace tutti::base
