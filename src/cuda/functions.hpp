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

struct CudaFunctions {
  int (*cuGetErrorName)(int, const char**) = nullptr;
  int (*cuGetErrorString)(int, const char**) = nullptr;
  int (*cuDriverGetVersion)(int*) = nullptr;
  int (*cuInit)(unsigned) = nullptr;
  int (*cuDeviceGetCount)(int*) = nullptr;
  int (*cuDeviceGetName)(char*, int, int) = nullptr;
  int (*cuDeviceTotalMem_v2)(std::size_t*, int) = nullptr;
  int (*cuDeviceGetPCIBusId)(char*, int, int) = nullptr;
  int (*cuDeviceCanAccessPeer)(int*, int, int) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void**, int) = nullptr;
  int (*cuDevicePrimaryCtxRelease_v2)(int) = nullptr;
  int (*cuCtxPushCurrent_v2)(void*) = nullptr;
  int (*cuCtxPopCurrent_v2)(void**) = nullptr;
  int (*cuThreadExchangeStreamCaptureMode)(int*) = nullptr;
  int (*cuStreamCreate)(void**, unsigned) = nullptr;
  int (*cuStreamDestroy_v2)(void*) = nullptr;
  int (*cuStreamWaitEvent)(void*, void*, unsigned) = nullptr;
  int (*cuStreamIsCapturing)(void*, int*) = nullptr;
  int (*cuEventCreate)(void**, unsigned) = nullptr;
  int (*cuEventDestroy_v2)(void*) = nullptr;
  int (*cuEventRecord)(void*, void*) = nullptr;
  int (*cuEventQuery)(void*) = nullptr;
  int (*cuMemHostRegister_v2)(void*, std::size_t, unsigned) = nullptr;
  int (*cuMemHostUnregister)(void*) = nullptr;
  int (*cuPointerGetAttribute)(void*, int, Address) = nullptr;
  int (*cuMemAllocAsync)(Address*, std::size_t, void*) = nullptr;
  int (*cuMemFreeAsync)(Address, void*) = nullptr;
  int (*cuMemcpyAsync)(Address, Address, std::size_t, void*) = nullptr;
  int (*cuMemcpyPeerAsync)(Address, void*, Address, void*, std::size_t, void*) = nullptr;
  int (*cuMemcpy2DAsync_v2)(const CudaCopy2d*, void*) = nullptr;
  int (*cuMemCreate)(std::uint64_t*, std::size_t, const CudaMemoryKind*,
                     unsigned long long) = nullptr;
  int (*cuMemRelease)(std::uint64_t) = nullptr;
  int (*cuMemExportToShareableHandle)(void*, std::uint64_t, int, unsigned long long) = nullptr;
  int (*cuMemImportFromShareableHandle)(std::uint64_t*, void*, int) = nullptr;
  int (*cuMemAddressReserve)(Address*, std::size_t, std::size_t, Address,
                             unsigned long long) = nullptr;
  int (*cuMemAddressFree)(Address, std::size_t) = nullptr;
  int (*cuMemMap)(Address, std::size_t, std::size_t, std::uint64_t, unsigned long long) = nullptr;
  int (*cuMemUnmap)(Address, std::size_t) = nullptr;
  int (*cuMemSetAccess)(Address, std::size_t, const CudaAccess*, std::size_t) = nullptr;
  int (*cuModuleLoadData)(void**, const void*) = nullptr;
  int (*cuModuleUnload)(void*) = nullptr;
  int (*cuModuleGetFunction)(void**, void*, const char*) = nullptr;
  int (*cuLaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        void*, void**, void**) = nullptr;

  /// All of them from an open library. Outcome: the name of the first that it lacks.
  [[nodiscard]] Outcome load(void* library);
};

}  // namespace tutti::cuda
