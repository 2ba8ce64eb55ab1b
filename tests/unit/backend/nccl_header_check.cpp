// Compares what the library knows of NCCL and of the CUDA driver (api.hpp, cuda_api.hpp,
// functions.hpp) with their headers: each constant, the layout of structs, and the parameters of
// each function. nccl.h is that of PyPI's nvidia-nccl-cu13 or of an installed one; cuda.h that of
// CUDA's toolkit.

#include <cuda.h>

#include <cstddef>
#include <cstdint>
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

#define TUTTI_SAME_CALL(functions, name)                                                     \
  static_assert(tutti::test::SameCall<decltype(functions{}.name), decltype(&::name)>::value, \
                #name);                                                                      \
  ++compared

void compare_cuda() {
  TUTTI_SAME_CALL(CudaFunctions, cuGetErrorName);
  TUTTI_SAME_CALL(CudaFunctions, cuGetErrorString);
  TUTTI_SAME_CALL(CudaFunctions, cuDriverGetVersion);
  TUTTI_SAME_CALL(CudaFunctions, cuInit);
  TUTTI_SAME_CALL(CudaFunctions, cuDeviceGetCount);
  TUTTI_SAME_CALL(CudaFunctions, cuDeviceGetName);
  TUTTI_SAME_CALL(CudaFunctions, cuDeviceTotalMem_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuDeviceGetPCIBusId);
  TUTTI_SAME_CALL(CudaFunctions, cuDeviceCanAccessPeer);
  TUTTI_SAME_CALL(CudaFunctions, cuDevicePrimaryCtxRetain);
  TUTTI_SAME_CALL(CudaFunctions, cuDevicePrimaryCtxRelease_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuCtxPushCurrent_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuCtxPopCurrent_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuStreamCreate);
  TUTTI_SAME_CALL(CudaFunctions, cuStreamDestroy_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuStreamWaitEvent);
  TUTTI_SAME_CALL(CudaFunctions, cuStreamIsCapturing);
  TUTTI_SAME_CALL(CudaFunctions, cuThreadExchangeStreamCaptureMode);
  TUTTI_SAME_CALL(CudaFunctions, cuEventCreate);
  TUTTI_SAME_CALL(CudaFunctions, cuEventDestroy_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuEventRecord);
  TUTTI_SAME_CALL(CudaFunctions, cuEventQuery);
  TUTTI_SAME_CALL(CudaFunctions, cuMemHostRegister_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuMemHostUnregister);
  TUTTI_SAME_CALL(CudaFunctions, cuPointerGetAttribute);
  TUTTI_SAME_CALL(CudaFunctions, cuMemAllocAsync);
  TUTTI_SAME_CALL(CudaFunctions, cuMemFreeAsync);
  TUTTI_SAME_CALL(CudaFunctions, cuMemcpyAsync);
  TUTTI_SAME_CALL(CudaFunctions, cuMemcpyPeerAsync);
  TUTTI_SAME_CALL(CudaFunctions, cuMemcpy2DAsync_v2);
  TUTTI_SAME_CALL(CudaFunctions, cuMemCreate);
  TUTTI_SAME_CALL(CudaFunctions, cuMemRelease);
  TUTTI_SAME_CALL(CudaFunctions, cuMemExportToShareableHandle);
  TUTTI_SAME_CALL(CudaFunctions, cuMemImportFromShareableHandle);
  TUTTI_SAME_CALL(CudaFunctions, cuMemAddressReserve);
  TUTTI_SAME_CALL(CudaFunctions, cuMemAddressFree);
  TUTTI_SAME_CALL(CudaFunctions, cuMemMap);
  TUTTI_SAME_CALL(CudaFunctions, cuMemUnmap);
  TUTTI_SAME_CALL(CudaFunctions, cuMemSetAccess);
  TUTTI_SAME_CALL(CudaFunctions, cuModuleLoadData);
  TUTTI_SAME_CALL(CudaFunctions, cuModuleUnload);
  TUTTI_SAME_CALL(CudaFunctions, cuModuleGetFunction);
  TUTTI_SAME_CALL(CudaFunctions, cuLaunchKernel);
  expect("CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
         kDeviceOrdinal);
  expect("CU_MEM_ALLOCATION_TYPE_PINNED", CU_MEM_ALLOCATION_TYPE_PINNED, CudaMemoryKind().type);
  expect("CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
         CudaMemoryKind::kDescriptor);
  expect("CU_MEM_LOCATION_TYPE_DEVICE", CU_MEM_LOCATION_TYPE_DEVICE, CudaLocation().type);
  expect("CU_MEM_ACCESS_FLAGS_PROT_READWRITE", CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
         CudaAccess().flags);
  expect("CUmemAllocationProp", sizeof(CUmemAllocationProp), sizeof(CudaMemoryKind));
  expect("CUmemAllocationProp::location", offsetof(CUmemAllocationProp, location),
         offsetof(CudaMemoryKind, location));
  expect("CUmemAllocationProp::requestedHandleTypes",
         offsetof(CUmemAllocationProp, requestedHandleTypes), offsetof(CudaMemoryKind, handles));
  expect("CUmemAllocationProp::allocFlags", offsetof(CUmemAllocationProp, allocFlags),
         offsetof(CudaMemoryKind, flags));
  expect("CUmemAccessDesc", sizeof(CUmemAccessDesc), sizeof(CudaAccess));
  expect("CUmemAccessDesc::flags", offsetof(CUmemAccessDesc, flags), offsetof(CudaAccess, flags));
  expect("CUDA_ERROR_NOT_READY", CUDA_ERROR_NOT_READY, kCudaNotReady);
  expect("CUDA_ERROR_DEINITIALIZED", CUDA_ERROR_DEINITIALIZED, kCudaDeinitialized);
  expect("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
         kCudaCaptureImplicit);
  expect("CU_STREAM_CAPTURE_MODE_RELAXED", CU_STREAM_CAPTURE_MODE_RELAXED, kCaptureRelaxed);
  expect("CU_STREAM_NON_BLOCKING", CU_STREAM_NON_BLOCKING, kStreamNonBlocking);
  expect("CU_EVENT_DISABLE_TIMING", CU_EVENT_DISABLE_TIMING, kEventDisableTiming);
  expect("CU_MEMHOSTREGISTER_PORTABLE", CU_MEMHOSTREGISTER_PORTABLE, kRegisterPortable);
  expect("CU_MEMORYTYPE_UNIFIED", CU_MEMORYTYPE_UNIFIED, CudaCopy2d::kUnified);
  expect("CUdeviceptr", sizeof(CUdeviceptr), sizeof(Address));
  expect("CUDA_MEMCPY2D", sizeof(CUDA_MEMCPY2D), sizeof(CudaCopy2d));
#define TUTTI_SAME_PLACE(theirs, ours) \
  expect(#theirs, offsetof(CUDA_MEMCPY2D, theirs), offsetof(CudaCopy2d, ours))
  TUTTI_SAME_PLACE(srcXInBytes, from_x);
  TUTTI_SAME_PLACE(srcY, from_y);
  TUTTI_SAME_PLACE(srcMemoryType, from_type);
  TUTTI_SAME_PLACE(srcDevice, from_device);
  TUTTI_SAME_PLACE(srcPitch, from_pitch);
  TUTTI_SAME_PLACE(dstXInBytes, to_x);
  TUTTI_SAME_PLACE(dstY, to_y);
  TUTTI_SAME_PLACE(dstMemoryType, to_type);
  TUTTI_SAME_PLACE(dstDevice, to_device);
  TUTTI_SAME_PLACE(dstPitch, to_pitch);
  TUTTI_SAME_PLACE(WidthInBytes, width);
  TUTTI_SAME_PLACE(Height, height);
#undef TUTTI_SAME_PLACE
}

#ifdef TUTTI_WITH_NCCL_HEADER
void compare_mock() {
  namespace mock = tutti::test::mock_nccl;
  expect("ncclInvalidUsage", ncclInvalidUsage, mock::kInvalidUsage);
  expect("ncclInProgress", ncclInProgress, mock::kInProgress);
  expect("NCCL_SPLIT_NOCOLOR", NCCL_SPLIT_NOCOLOR, mock::kNoColor);
  expect("ncclNumOps", ncclNumOps, mock::kFirstMadeOp);
  expect("ncclScalarDevice", ncclScalarDevice, mock::kFactorOnDevice);
  expect("ncclUniqueId", sizeof(ncclUniqueId), sizeof(mock::UniqueId));
  const ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
  expect("NCCL_API_MAGIC", usual.magic, mock::kMagic);
  expect("NCCL_CONFIG_UNDEF_INT", usual.minCTAs, mock::kUndefined);
  expect("NCCL_VERSION(2, 19, 0)", NCCL_VERSION(2, 19, 0), mock::kConfigVersion);
#define TUTTI_SAME_PLACE(member) \
  expect("the mock's " #member, offsetof(ncclConfig_t, member), offsetof(mock::Config, member))
  TUTTI_SAME_PLACE(size);
  TUTTI_SAME_PLACE(magic);
  TUTTI_SAME_PLACE(version);
  TUTTI_SAME_PLACE(blocking);
  TUTTI_SAME_PLACE(cgaClusterSize);
  TUTTI_SAME_PLACE(minCTAs);
  TUTTI_SAME_PLACE(maxCTAs);
  TUTTI_SAME_PLACE(netName);
  TUTTI_SAME_PLACE(splitShare);
#undef TUTTI_SAME_PLACE
}

void compare_nccl() {
  TUTTI_SAME_CALL(NcclFunctions, ncclGetVersion);
  TUTTI_SAME_CALL(NcclFunctions, ncclGetErrorString);
  TUTTI_SAME_CALL(NcclFunctions, ncclGetLastError);
  TUTTI_SAME_CALL(NcclFunctions, ncclGetUniqueId);
  TUTTI_SAME_CALL(NcclFunctions, ncclCommInitRankConfig);
  TUTTI_SAME_CALL(NcclFunctions, ncclCommSplit);
  TUTTI_SAME_CALL(NcclFunctions, ncclCommFinalize);
  TUTTI_SAME_CALL(NcclFunctions, ncclCommDestroy);
  TUTTI_SAME_CALL(NcclFunctions, ncclCommAbort);
  TUTTI_SAME_CALL(NcclFunctions, ncclCommGetAsyncError);
  TUTTI_SAME_CALL(NcclFunctions, ncclRedOpCreatePreMulSum);
  TUTTI_SAME_CALL(NcclFunctions, ncclRedOpDestroy);
  TUTTI_SAME_CALL(NcclFunctions, ncclGroupStart);
  TUTTI_SAME_CALL(NcclFunctions, ncclGroupEnd);
  TUTTI_SAME_CALL(NcclFunctions, ncclAllReduce);
  TUTTI_SAME_CALL(NcclFunctions, ncclReduce);
  TUTTI_SAME_CALL(NcclFunctions, ncclBroadcast);
  TUTTI_SAME_CALL(NcclFunctions, ncclAllGather);
  TUTTI_SAME_CALL(NcclFunctions, ncclReduceScatter);
  TUTTI_SAME_CALL(NcclFunctions, ncclSend);
  TUTTI_SAME_CALL(NcclFunctions, ncclRecv);
  expect("ncclInProgress", ncclInProgress, kInProgress);
  expect("NCCL_SPLIT_NOCOLOR", NCCL_SPLIT_NOCOLOR, kNoColor);
  expect("ncclUniqueId", sizeof(ncclUniqueId), sizeof(UniqueId));
  expect("ncclScalarDevice", ncclScalarDevice, 0);
  expect("ncclScalarHostImmediate", ncclScalarHostImmediate, 1);
  expect("ncclInt8", ncclInt8, Type::int8);
  expect("ncclUint8", ncclUint8, Type::uint8);
  expect("ncclInt32", ncclInt32, Type::int32);
  expect("ncclUint32", ncclUint32, Type::uint32);
  expect("ncclInt64", ncclInt64, Type::int64);
  expect("ncclUint64", ncclUint64, Type::uint64);
  expect("ncclFloat16", ncclFloat16, Type::float16);
  expect("ncclFloat32", ncclFloat32, Type::float32);
  expect("ncclFloat64", ncclFloat64, Type::float64);
  expect("ncclBfloat16", ncclBfloat16, Type::bfloat16);
#if NCCL_VERSION_CODE >= 22400
  expect("ncclFloat8e4m3", ncclFloat8e4m3, Type::float8_e4m3);
  expect("ncclFloat8e5m2", ncclFloat8e5m2, Type::float8_e5m2);
#endif
  expect("ncclSum", ncclSum, Op::sum);
  expect("ncclProd", ncclProd, Op::product);
  expect("ncclMax", ncclMax, Op::max);
  expect("ncclMin", ncclMin, Op::min);
  expect("ncclAvg", ncclAvg, Op::avg);
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const CommConfig ours;
  expect("NCCL_API_MAGIC", theirs.magic, ours.magic);
  expect("NCCL_CONFIG_UNDEF_INT", theirs.minCTAs, ours.min_ctas);
  expect("NCCL_VERSION(2, 19, 0)", NCCL_VERSION(2, 19, 0), kLeastVersion);
#define TUTTI_SAME_PLACE(theirs, ours) \
  expect(#theirs, offsetof(ncclConfig_t, theirs), offsetof(CommConfig, ours))
  TUTTI_SAME_PLACE(size, size);
  TUTTI_SAME_PLACE(magic, magic);
  TUTTI_SAME_PLACE(version, version);
  TUTTI_SAME_PLACE(blocking, blocking);
  TUTTI_SAME_PLACE(cgaClusterSize, cga_cluster_size);
  TUTTI_SAME_PLACE(minCTAs, min_ctas);
  TUTTI_SAME_PLACE(maxCTAs, max_ctas);
  TUTTI_SAME_PLACE(netName, net_name);
  TUTTI_SAME_PLACE(splitShare, split_share);
#undef TUTTI_SAME_PLACE
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
