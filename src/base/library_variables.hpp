#pragma once

#include <array>

namespace tutti::base {

/// Where backends look for libraries, before there is a world that has settings.
inline constexpr std::array kLibraryVariables = {"TUTTI_BACKEND_PATH", "TUTTI_CUDA_LIBRARY",
                                                 "TUTTI_MPI_LIBRARY", "TUTTI_NCCL_LIBRARY"};

}  // namespace tutti::base
