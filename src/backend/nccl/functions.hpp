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

/// The functions that are needed: X(result, name, parameters).
#define TUTTI_NCCL_FUNCTIONS(X)                                                        \
  X(int, ncclGetVersion, (int*))                                                       \
  X(const char*, ncclGetErrorString, (int))                                            \
  X(const char*, ncclGetLastError, (void*))                                            \
  X(int, ncclGetUniqueId, (UniqueId*))                                                 \
  X(int, ncclCommInitRankConfig, (void**, int, UniqueId, int, CommConfig*))            \
  X(int, ncclCommSplit, (void*, int, int, void**, CommConfig*))                        \
  X(int, ncclCommFinalize, (void*))                                                    \
  X(int, ncclCommDestroy, (void*))                                                     \
  X(int, ncclCommAbort, (void*))                                                       \
  X(int, ncclCommGetAsyncError, (void*, int*))                                         \
  X(int, ncclRedOpCreatePreMulSum, (int*, void*, int, int, void*))                     \
  X(int, ncclRedOpDestroy, (int, void*))                                               \
  X(int, ncclGroupStart, ())                                                           \
  X(int, ncclGroupEnd, ())                                                             \
  X(int, ncclAllReduce, (const void*, void*, std::size_t, int, int, void*, void*))     \
  X(int, ncclReduce, (const void*, void*, std::size_t, int, int, int, void*, void*))   \
  X(int, ncclBroadcast, (const void*, void*, std::size_t, int, int, void*, void*))     \
  X(int, ncclAllGather, (const void*, void*, std::size_t, int, void*, void*))          \
  X(int, ncclReduceScatter, (const void*, void*, std::size_t, int, int, void*, void*)) \
  X(int, ncclSend, (const void*, std::size_t, int, int, void*, void*))                 \
  X(int, ncclRecv, (void*, std::size_t, int, int, void*, void*))

struct NcclFunctions {
#define TUTTI_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  TUTTI_NCCL_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

  /// Finds all of them in an open library. The outcome names the first that is missing.
  [[nodiscard]] Outcome load(void* library);
};

}  // namespace tutti::nccl
