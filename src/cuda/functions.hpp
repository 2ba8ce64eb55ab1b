#pragma once

#include <cstddef>
#include <cstdint>

#include <tutti/error.hpp>

#include "cuda/cuda_api.hpp"

// The functions of the CUDA driver as its header declares them; handles are pointers to void,
// enumerations ints. tests/unit/backend/nccl_header_check.cpp compares them with the header.
namespace tutti::cuda {

inline constexpr unsigned kStreamNonBlocking = 1;   ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventDisableTiming = 2;  ///< CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kRegisterPortable = 1;    ///< CU_MEMHOSTREGISTER_PORTABLE
inline constexpr int kDeviceOrdinal = 9;            ///< CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

/// CUDA_MEMCPY2D.
struct CudaCopy2d {
  /// CU_MEMORYTYPE_UNIFIED: an address tells whether it is of a GPU or of the host.
  static constexpr unsigned kUnified = 4;

  std::size_t from_x = 0;
  std::size_t from_y = 0;
  unsigned from_type = kUnified;
  const void* from_host = nullptr;
  Address from_device = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;
  std::size_t to_x = 0;
  std::size_t to_y = 0;
  unsigned to_type = kUnified;
  void* to_host = nullptr;
  Address to_device = 0;
  void* to_array = nullptr;
  std::size_t to_pitch = 0;
  std::size_t width = 0;
  std::size_t height = 0;
};

/// CUmemLocation: of a device.
struct CudaLocation {
  int type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  int device = 0;
};

/// CUmemAllocationProp.
struct CudaMemoryKind {
  /// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
  static constexpr int kDescriptor = 1;

  int type = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED
  int handles = kDescriptor;
  CudaLocation location;
  void* windows = nullptr;
  unsigned char flags[8] = {};
};

/// CUmemAccessDesc.
struct CudaAccess {
  CudaLocation location;
  int flags = 3;  ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

/// The functions that are needed: X(name, parameters). All return an int.
#define TUTTI_CUDA_FUNCTIONS(X)                                                                   \
  X(cuGetErrorName, (int, const char**))                                                          \
  X(cuGetErrorString, (int, const char**))                                                        \
  X(cuDriverGetVersion, (int*))                                                                   \
  X(cuInit, (unsigned))                                                                           \
  X(cuDeviceGetCount, (int*))                                                                     \
  X(cuDeviceGetName, (char*, int, int))                                                           \
  X(cuDeviceTotalMem_v2, (std::size_t*, int))                                                     \
  X(cuDeviceGetPCIBusId, (char*, int, int))                                                       \
  X(cuDeviceCanAccessPeer, (int*, int, int))                                                      \
  X(cuDevicePrimaryCtxRetain, (void**, int))                                                      \
  X(cuDevicePrimaryCtxRelease_v2, (int))                                                          \
  X(cuCtxPushCurrent_v2, (void*))                                                                 \
  X(cuCtxPopCurrent_v2, (void**))                                                                 \
  X(cuThreadExchangeStreamCaptureMode, (int*))                                                    \
  X(cuStreamCreate, (void**, unsigned))                                                           \
  X(cuStreamDestroy_v2, (void*))                                                                  \
  X(cuStreamWaitEvent, (void*, void*, unsigned))                                                  \
  X(cuStreamIsCapturing, (void*, int*))                                                           \
  X(cuEventCreate, (void**, unsigned))                                                            \
  X(cuEventDestroy_v2, (void*))                                                                   \
  X(cuEventRecord, (void*, void*))                                                                \
  X(cuEventQuery, (void*))                                                                        \
  X(cuMemHostRegister_v2, (void*, std::size_t, unsigned))                                         \
  X(cuMemHostUnregister, (void*))                                                                 \
  X(cuPointerGetAttribute, (void*, int, Address))                                                 \
  X(cuMemAllocAsync, (Address*, std::size_t, void*))                                              \
  X(cuMemFreeAsync, (Address, void*))                                                             \
  X(cuMemcpyAsync, (Address, Address, std::size_t, void*))                                        \
  X(cuMemcpyPeerAsync, (Address, void*, Address, void*, std::size_t, void*))                      \
  X(cuMemcpy2DAsync_v2, (const CudaCopy2d*, void*))                                               \
  X(cuMemCreate, (std::uint64_t*, std::size_t, const CudaMemoryKind*, unsigned long long))        \
  X(cuMemRelease, (std::uint64_t))                                                                \
  X(cuMemExportToShareableHandle, (void*, std::uint64_t, int, unsigned long long))                \
  X(cuMemImportFromShareableHandle, (std::uint64_t*, void*, int))                                 \
  X(cuMemAddressReserve, (Address*, std::size_t, std::size_t, Address, unsigned long long))       \
  X(cuMemAddressFree, (Address, std::size_t))                                                     \
  X(cuMemMap, (Address, std::size_t, std::size_t, std::uint64_t, unsigned long long))             \
  X(cuMemUnmap, (Address, std::size_t))                                                           \
  X(cuMemSetAccess, (Address, std::size_t, const CudaAccess*, std::size_t))                       \
  X(cuModuleLoadData, (void**, const void*))                                                      \
  X(cuModuleUnload, (void*))                                                                      \
  X(cuModuleGetFunction, (void**, void*, const char*))                                            \
  X(cuLaunchKernel, (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                     void*, void**, void**))

struct CudaFunctions {
#define TUTTI_DECLARE(name, parameters) int(*name) parameters = nullptr;
  TUTTI_CUDA_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

  /// Finds all of them in an open library. The outcome names the first that is missing.
  [[nodiscard]] Outcome load(void* library);
};

}  // namespace tutti::cuda
