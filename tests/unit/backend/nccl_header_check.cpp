// Compares what the library knows of NCCL and of the CUDA driver (api.hpp, cuda_api.hpp,
// functions.hpp) with their headers: each constant, the layout of structs, and the parameters of
// each function. nccl.h is that of PyPI's nvidia-nccl-cu13 or of an installed one; cuda.h that of
// CUDA's toolkit.

#include <cuda.h>

#include <cstdio>

#ifdef TUTTI_WITH_NCCL_HEADER
#include <nccl.h>
#endif

#include "backend/nccl/functions.hpp"
#include "cuda/functions.hpp"
#include "support/mock_nccl_abi.hpp"
#include "support/same_call.hpp"

namespace {

using namespace tutti::cuda;
using namespace tutti::nccl;

int compared = 0;
int wrong = 0;

template <class Theirs, class Ours>
void expect(const char* name, Theirs header, Ours ours) {
  ++compared;
  if (static_cast<long long>(header) == static_cast<long long>(ours)) return;
  ++wrong;
  std::printf("%s: %lld in the header, %lld in ours\n", name, static_cast<long long>(header),
              static_cast<long long>(ours));
}

/// A constant and ours.
#define TUTTI_SAME(name, ours) expect(#name, name, ours)
#define TUTTI_SAME_SIZE(theirs, ours) expect(#theirs, sizeof(theirs), sizeof(ours))
#define TUTTI_SAME_PLACE(theirs, member, ours, our_member) \
  expect(#theirs "::" #member, offsetof(theirs, member), offsetof(ours, our_member))

#define SAME_IN_CUDA(name) TUTTI_SAME_CALL(CudaFunctions, name)
#define SAME_IN_NCCL(name) TUTTI_SAME_CALL(NcclFunctions, name)

void compare_cuda() {
  compared += tutti::test::how_many(
      SAME_IN_CUDA(cuGetErrorName), SAME_IN_CUDA(cuGetErrorString),
      SAME_IN_CUDA(cuDriverGetVersion), SAME_IN_CUDA(cuInit), SAME_IN_CUDA(cuDeviceGetCount),
      SAME_IN_CUDA(cuDeviceGetName), SAME_IN_CUDA(cuDeviceTotalMem_v2),
      SAME_IN_CUDA(cuDeviceGetPCIBusId), SAME_IN_CUDA(cuDeviceCanAccessPeer),
      SAME_IN_CUDA(cuDevicePrimaryCtxRetain), SAME_IN_CUDA(cuDevicePrimaryCtxRelease_v2),
      SAME_IN_CUDA(cuCtxPushCurrent_v2), SAME_IN_CUDA(cuCtxPopCurrent_v2),
      SAME_IN_CUDA(cuStreamCreate), SAME_IN_CUDA(cuStreamDestroy_v2),
      SAME_IN_CUDA(cuStreamWaitEvent), SAME_IN_CUDA(cuStreamIsCapturing),
      SAME_IN_CUDA(cuThreadExchangeStreamCaptureMode), SAME_IN_CUDA(cuEventCreate),
      SAME_IN_CUDA(cuEventDestroy_v2), SAME_IN_CUDA(cuEventRecord), SAME_IN_CUDA(cuEventQuery),
      SAME_IN_CUDA(cuMemHostRegister_v2), SAME_IN_CUDA(cuMemHostUnregister),
      SAME_IN_CUDA(cuPointerGetAttribute), SAME_IN_CUDA(cuMemAllocAsync),
      SAME_IN_CUDA(cuMemFreeAsync), SAME_IN_CUDA(cuMemcpyAsync), SAME_IN_CUDA(cuMemcpyPeerAsync),
      SAME_IN_CUDA(cuMemcpy2DAsync_v2), SAME_IN_CUDA(cuMemCreate), SAME_IN_CUDA(cuMemRelease),
      SAME_IN_CUDA(cuMemExportToShareableHandle), SAME_IN_CUDA(cuMemImportFromShareableHandle),
      SAME_IN_CUDA(cuMemAddressReserve), SAME_IN_CUDA(cuMemAddressFree), SAME_IN_CUDA(cuMemMap),
      SAME_IN_CUDA(cuMemUnmap), SAME_IN_CUDA(cuMemSetAccess), SAME_IN_CUDA(cuModuleLoadData),
      SAME_IN_CUDA(cuModuleUnload), SAME_IN_CUDA(cuModuleGetFunction),
      SAME_IN_CUDA(cuLaunchKernel));
  TUTTI_SAME(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, kDeviceOrdinal);
  TUTTI_SAME(CU_MEM_ALLOCATION_TYPE_PINNED, CudaMemoryKind().type);
  TUTTI_SAME(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CudaMemoryKind::kDescriptor);
  TUTTI_SAME(CU_MEM_LOCATION_TYPE_DEVICE, CudaLocation().type);
  TUTTI_SAME(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CudaAccess().flags);
  TUTTI_SAME_SIZE(CUmemAllocationProp, CudaMemoryKind);
  TUTTI_SAME_PLACE(CUmemAllocationProp, location, CudaMemoryKind, location);
  TUTTI_SAME_PLACE(CUmemAllocationProp, requestedHandleTypes, CudaMemoryKind, handles);
  TUTTI_SAME_PLACE(CUmemAllocationProp, allocFlags, CudaMemoryKind, flags);
  TUTTI_SAME_SIZE(CUmemAccessDesc, CudaAccess);
  TUTTI_SAME_PLACE(CUmemAccessDesc, flags, CudaAccess, flags);
  TUTTI_SAME(CUDA_ERROR_NOT_READY, kCudaNotReady);
  TUTTI_SAME(CUDA_ERROR_DEINITIALIZED, kCudaDeinitialized);
  TUTTI_SAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, kCudaCaptureImplicit);
  TUTTI_SAME(CU_STREAM_CAPTURE_MODE_RELAXED, kCaptureRelaxed);
  TUTTI_SAME(CU_STREAM_NON_BLOCKING, kStreamNonBlocking);
  TUTTI_SAME(CU_EVENT_DISABLE_TIMING, kEventDisableTiming);
  TUTTI_SAME(CU_MEMHOSTREGISTER_PORTABLE, kRegisterPortable);
  TUTTI_SAME(CU_MEMORYTYPE_UNIFIED, CudaCopy2d::kUnified);
  TUTTI_SAME_SIZE(CUdeviceptr, Address);
  TUTTI_SAME_SIZE(CUDA_MEMCPY2D, CudaCopy2d);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, srcXInBytes, CudaCopy2d, from_x);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, srcY, CudaCopy2d, from_y);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, srcMemoryType, CudaCopy2d, from_type);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, srcDevice, CudaCopy2d, from_device);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, srcPitch, CudaCopy2d, from_pitch);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, dstXInBytes, CudaCopy2d, to_x);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, dstY, CudaCopy2d, to_y);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, dstMemoryType, CudaCopy2d, to_type);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, dstDevice, CudaCopy2d, to_device);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, dstPitch, CudaCopy2d, to_pitch);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, WidthInBytes, CudaCopy2d, width);
  TUTTI_SAME_PLACE(CUDA_MEMCPY2D, Height, CudaCopy2d, height);
}

#ifdef TUTTI_WITH_NCCL_HEADER
void compare_mock() {
  namespace mock = tutti::test::mock_nccl;
  TUTTI_SAME(ncclInvalidUsage, mock::kInvalidUsage);
  TUTTI_SAME(ncclInProgress, mock::kInProgress);
  TUTTI_SAME(NCCL_SPLIT_NOCOLOR, mock::kNoColor);
  TUTTI_SAME(ncclNumOps, mock::kFirstMadeOp);
  TUTTI_SAME(ncclScalarDevice, mock::kFactorOnDevice);
  TUTTI_SAME_SIZE(ncclUniqueId, mock::UniqueId);
  const ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
  expect("NCCL_API_MAGIC", usual.magic, mock::kMagic);
  expect("NCCL_CONFIG_UNDEF_INT", usual.minCTAs, mock::kUndefined);
  expect("NCCL_VERSION(2, 19, 0)", NCCL_VERSION(2, 19, 0), mock::kConfigVersion);
  TUTTI_SAME_PLACE(ncclConfig_t, size, mock::Config, size);
  TUTTI_SAME_PLACE(ncclConfig_t, magic, mock::Config, magic);
  TUTTI_SAME_PLACE(ncclConfig_t, version, mock::Config, version);
  TUTTI_SAME_PLACE(ncclConfig_t, blocking, mock::Config, blocking);
  TUTTI_SAME_PLACE(ncclConfig_t, cgaClusterSize, mock::Config, cgaClusterSize);
  TUTTI_SAME_PLACE(ncclConfig_t, minCTAs, mock::Config, minCTAs);
  TUTTI_SAME_PLACE(ncclConfig_t, maxCTAs, mock::Config, maxCTAs);
  TUTTI_SAME_PLACE(ncclConfig_t, netName, mock::Config, netName);
  TUTTI_SAME_PLACE(ncclConfig_t, splitShare, mock::Config, splitShare);
}

void compare_nccl() {
  compared += tutti::test::how_many(
      SAME_IN_NCCL(ncclGetVersion), SAME_IN_NCCL(ncclGetErrorString),
      SAME_IN_NCCL(ncclGetLastError), SAME_IN_NCCL(ncclGetUniqueId),
      SAME_IN_NCCL(ncclCommInitRankConfig), SAME_IN_NCCL(ncclCommSplit),
      SAME_IN_NCCL(ncclCommFinalize), SAME_IN_NCCL(ncclCommDestroy), SAME_IN_NCCL(ncclCommAbort),
      SAME_IN_NCCL(ncclCommGetAsyncError), SAME_IN_NCCL(ncclRedOpCreatePreMulSum),
      SAME_IN_NCCL(ncclRedOpDestroy), SAME_IN_NCCL(ncclGroupStart), SAME_IN_NCCL(ncclGroupEnd),
      SAME_IN_NCCL(ncclAllReduce), SAME_IN_NCCL(ncclReduce), SAME_IN_NCCL(ncclBroadcast),
      SAME_IN_NCCL(ncclAllGather), SAME_IN_NCCL(ncclReduceScatter), SAME_IN_NCCL(ncclSend),
      SAME_IN_NCCL(ncclRecv));
  TUTTI_SAME(ncclInProgress, kInProgress);
  TUTTI_SAME(NCCL_SPLIT_NOCOLOR, kNoColor);
  TUTTI_SAME_SIZE(ncclUniqueId, UniqueId);
  TUTTI_SAME(ncclScalarDevice, 0);
  TUTTI_SAME(ncclScalarHostImmediate, 1);
  TUTTI_SAME(ncclInt8, Type::int8);
  TUTTI_SAME(ncclUint8, Type::uint8);
  TUTTI_SAME(ncclInt32, Type::int32);
  TUTTI_SAME(ncclUint32, Type::uint32);
  TUTTI_SAME(ncclInt64, Type::int64);
  TUTTI_SAME(ncclUint64, Type::uint64);
  TUTTI_SAME(ncclFloat16, Type::float16);
  TUTTI_SAME(ncclFloat32, Type::float32);
  TUTTI_SAME(ncclFloat64, Type::float64);
  TUTTI_SAME(ncclBfloat16, Type::bfloat16);
#if NCCL_VERSION_CODE >= 22400
  TUTTI_SAME(ncclFloat8e4m3, Type::float8_e4m3);
  TUTTI_SAME(ncclFloat8e5m2, Type::float8_e5m2);
#endif
  TUTTI_SAME(ncclSum, Op::sum);
  TUTTI_SAME(ncclProd, Op::product);
  TUTTI_SAME(ncclMax, Op::max);
  TUTTI_SAME(ncclMin, Op::min);
  TUTTI_SAME(ncclAvg, Op::avg);
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const CommConfig ours;
  expect("NCCL_API_MAGIC", theirs.magic, ours.magic);
  expect("NCCL_CONFIG_UNDEF_INT", theirs.minCTAs, ours.min_ctas);
  expect("NCCL_VERSION(2, 19, 0)", NCCL_VERSION(2, 19, 0), kLeastVersion);
  TUTTI_SAME_PLACE(ncclConfig_t, size, CommConfig, size);
  TUTTI_SAME_PLACE(ncclConfig_t, magic, CommConfig, magic);
  TUTTI_SAME_PLACE(ncclConfig_t, version, CommConfig, version);
  TUTTI_SAME_PLACE(ncclConfig_t, blocking, CommConfig, blocking);
  TUTTI_SAME_PLACE(ncclConfig_t, cgaClusterSize, CommConfig, cga_cluster_size);
  TUTTI_SAME_PLACE(ncclConfig_t, minCTAs, CommConfig, min_ctas);
  TUTTI_SAME_PLACE(ncclConfig_t, maxCTAs, CommConfig, max_ctas);
  TUTTI_SAME_PLACE(ncclConfig_t, netName, CommConfig, net_name);
  TUTTI_SAME_PLACE(ncclConfig_t, splitShare, CommConfig, split_share);
  compare_mock();
}
#endif

}  // namespace

int main() {
  compare_cuda();
#ifdef TUTTI_WITH_NCCL_HEADER
  compare_nccl();
#else
  std::printf("nccl.h is not here (pip download nvidia-nccl-cu13)\n");
#endif
  std::printf("%d compared, %d differ\n", compared, wrong);
  return wrong == 0 ? 0 : 1;
}
