#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tutti/error.hpp>

#include "backend/nccl/api.hpp"

// The functions of NCCL as its header declares them; handles are pointers to void, enumerations
// ints. tests/unit/backend/nccl_header_check.cpp compares them with the header.
namespace tutti::nccl {

/// ncclConfig_t as NCCL 2.19 has it: later versions read `size` bytes of it.
struct CommConfig {
  std::size_t size = sizeof(CommConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kLeastVersion;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // NCCL_CONFIG_UNDEF_INT
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

struct NcclFunctions {
  int (*ncclGetVersion)(int*) = nullptr;
  const char* (*ncclGetErrorString)(int) = nullptr;
  const char* (*ncclGetLastError)(void*) = nullptr;
  int (*ncclGetUniqueId)(UniqueId*) = nullptr;
  int (*ncclCommInitRankConfig)(void**, int, UniqueId, int, CommConfig*) = nullptr;
  int (*ncclCommSplit)(void*, int, int, void**, CommConfig*) = nullptr;
  int (*ncclCommFinalize)(void*) = nullptr;
  int (*ncclCommDestroy)(void*) = nullptr;
  int (*ncclCommAbort)(void*) = nullptr;
  int (*ncclCommGetAsyncError)(void*, int*) = nullptr;
  int (*ncclRedOpCreatePreMulSum)(int*, void*, int, int, void*) = nullptr;
  int (*ncclRedOpDestroy)(int, void*) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
  int (*ncclAllReduce)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*ncclReduce)(const void*, void*, std::size_t, int, int, int, void*, void*) = nullptr;
  int (*ncclBroadcast)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*ncclAllGather)(const void*, void*, std::size_t, int, void*, void*) = nullptr;
  int (*ncclReduceScatter)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*ncclSend)(const void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*ncclRecv)(void*, std::size_t, int, int, void*, void*) = nullptr;

  /// All of them from an open library. Outcome: the name of the first that it lacks.
  [[nodiscard]] Outcome load(void* library);
};

}  // namespace tutti::nccl
