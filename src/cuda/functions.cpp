#include "cuda/functions.hpp"

#include "cuda/function_finder.hpp"

namespace tutti::cuda {

#define TUTTI_FIND(name) finder.find(name, #name)

Outcome CudaFunctions::load(void* library) {
  FunctionFinder finder(library);
  TUTTI_FIND(cuGetErrorName);
  TUTTI_FIND(cuGetErrorString);
  TUTTI_FIND(cuDriverGetVersion);
  TUTTI_FIND(cuInit);
  TUTTI_FIND(cuDeviceGetCount);
  TUTTI_FIND(cuDeviceGetName);
  TUTTI_FIND(cuDeviceTotalMem_v2);
  TUTTI_FIND(cuDeviceGetPCIBusId);
  TUTTI_FIND(cuDeviceCanAccessPeer);
  TUTTI_FIND(cuDevicePrimaryCtxRetain);
  TUTTI_FIND(cuDevicePrimaryCtxRelease_v2);
  TUTTI_FIND(cuCtxPushCurrent_v2);
  TUTTI_FIND(cuCtxPopCurrent_v2);
  TUTTI_FIND(cuThreadExchangeStreamCaptureMode);
  TUTTI_FIND(cuStreamCreate);
  TUTTI_FIND(cuStreamDestroy_v2);
  TUTTI_FIND(cuStreamWaitEvent);
  TUTTI_FIND(cuStreamIsCapturing);
  TUTTI_FIND(cuEventCreate);
  TUTTI_FIND(cuEventDestroy_v2);
  TUTTI_FIND(cuEventRecord);
  TUTTI_FIND(cuEventQuery);
  TUTTI_FIND(cuMemHostRegister_v2);
  TUTTI_FIND(cuMemHostUnregister);
  TUTTI_FIND(cuPointerGetAttribute);
  TUTTI_FIND(cuMemAllocAsync);
  TUTTI_FIND(cuMemFreeAsync);
  TUTTI_FIND(cuMemcpyAsync);
  TUTTI_FIND(cuMemcpyPeerAsync);
  TUTTI_FIND(cuMemcpy2DAsync_v2);
  TUTTI_FIND(cuMemCreate);
  TUTTI_FIND(cuMemRelease);
  TUTTI_FIND(cuMemExportToShareableHandle);
  TUTTI_FIND(cuMemImportFromShareableHandle);
  TUTTI_FIND(cuMemAddressReserve);
  TUTTI_FIND(cuMemAddressFree);
  TUTTI_FIND(cuMemMap);
  TUTTI_FIND(cuMemUnmap);
  TUTTI_FIND(cuMemSetAccess);
  TUTTI_FIND(cuModuleLoadData);
  TUTTI_FIND(cuModuleUnload);
  TUTTI_FIND(cuModuleGetFunction);
  TUTTI_FIND(cuLaunchKernel);
  return finder.found("a driver for CUDA 11.2 or later is needed");
}

#undef TUTTI_FIND

}  // namespace tutti::cuda
