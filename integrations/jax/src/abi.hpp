#pragma once

#include <cstdint>

// The types of MPItrampoline's wrapper ABI 2.9. Its handles are integers whose values a wrapper
// chooses.
namespace tutti::jax {

using Handle = std::uintptr_t;

/// The results of the ABI's functions.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;

/// Values of the constants that jaxlib uses. A communicator that jaxlib makes has a handle above
/// all of them.
enum Fixed : Handle {
  null_handle = 0,
  world_handle = 1,
  in_place = 2,
  // Datatypes.
  byte_type = 16,
  int8_type,
  uint8_type,
  int16_type,
  uint16_type,
  int32_type,
  uint32_type,
  int64_type,
  uint64_type,
  float32_type,
  float64_type,
  complex64_type,
  complex128_type,
  // Operations.
  sum_op = 64,
  product_op,
  min_op,
  max_op,
  first_other = 128,   ///< constants that jaxlib does not use
  first_made = 65536,  ///< communicators and requests
};

inline constexpr int kNoColor = -32766;       ///< MPI_UNDEFINED
inline constexpr int kErrorTextBytes = 1024;  ///< MPI_MAX_ERROR_STRING of this ABI
inline constexpr int kThreadMultiple = 3;

/// Marks a function or constant of the ABI.
#define TUTTI_JAX_ABI extern "C" [[gnu::visibility("default")]]

}  // namespace tutti::jax
