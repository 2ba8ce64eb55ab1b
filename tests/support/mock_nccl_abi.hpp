#pragma once

#include <climits>
#include <cstddef>

// What NCCL's header says, for the mock of NCCL (mock_nccl_library.cpp). It is written down here
// once more, so that a mistake of the library's own declarations is not one of the mock, too;
// tests/unit/backend/nccl_header_check.cpp compares both with the header.
namespace tutti::test::mock_nccl {

inline constexpr int kInvalidUsage = 5;    // ncclInvalidUsage
inline constexpr int kInProgress = 7;      // ncclInProgress
inline constexpr int kNoColor = -1;        // NCCL_SPLIT_NOCOLOR
inline constexpr int kFirstMadeOp = 5;     // ncclNumOps, behind ncclAvg
inline constexpr int kFactorOnDevice = 0;  // ncclScalarDevice

struct UniqueId {  // ncclUniqueId
  char internal[128];
};

/// The part of ncclConfig_t that NCCL 2.19 has.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
};
inline constexpr unsigned kMagic = 0xcafebeef;     // NCCL_API_MAGIC
inline constexpr unsigned kConfigVersion = 21900;  // NCCL_VERSION(2, 19, 0)
inline constexpr int kUndefined = INT_MIN;         // NCCL_CONFIG_UNDEF_INT

}  // namespace tutti::test::mock_nccl
