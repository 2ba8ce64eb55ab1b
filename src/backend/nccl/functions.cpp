#include "backend/nccl/functions.hpp"

#include "cuda/function_finder.hpp"

namespace tutti::nccl {

#define TUTTI_FIND(name) finder.find(name, #name)

Outcome NcclFunctions::load(void* library) {
  cuda::FunctionFinder finder(library);
  TUTTI_FIND(ncclGetVersion);
  TUTTI_FIND(ncclGetErrorString);
  TUTTI_FIND(ncclGetLastError);
  TUTTI_FIND(ncclGetUniqueId);
  TUTTI_FIND(ncclCommInitRankConfig);
  TUTTI_FIND(ncclCommSplit);
  TUTTI_FIND(ncclCommFinalize);
  TUTTI_FIND(ncclCommDestroy);
  TUTTI_FIND(ncclCommAbort);
  TUTTI_FIND(ncclCommGetAsyncError);
  TUTTI_FIND(ncclRedOpCreatePreMulSum);
  TUTTI_FIND(ncclRedOpDestroy);
  TUTTI_FIND(ncclGroupStart);
  TUTTI_FIND(ncclGroupEnd);
  TUTTI_FIND(ncclAllReduce);
  TUTTI_FIND(ncclReduce);
  TUTTI_FIND(ncclBroadcast);
  TUTTI_FIND(ncclAllGather);
  TUTTI_FIND(ncclReduceScatter);
  TUTTI_FIND(ncclSend);
  TUTTI_FIND(ncclRecv);
  return finder.found("NCCL 2.19 or later is needed");
}

#undef TUTTI_FIND

}  // namespace tutti::nccl
