#pragma once

#include <atomic>
#include <chrono>

#include "backend/nccl/api.hpp"
#include "support/mock_gpu.hpp"

namespace tutti::test {

struct MockClique;

/// The state that all ranks see: cliques by their ids.
struct MockNetwork {
  std::map<std::string, std::shared_ptr<MockClique>> cliques;
  std::uint64_t ids = 0;
  int version = 23203;  ///< of NCCL
  /// Aborts of the mock return, so that none outlives it; where one hangs this is 1 s.
  std::chrono::nanoseconds abort_limit = std::chrono::minutes(1);
  /// To this rank ncclCommGetAsyncError tells of a failure of the network, on all communicators.
  std::atomic<int> broken_at = -1;
  /// A rank that leaves a communicator waits for its other ranks there, as NCCL's manual warns.
  bool waits_at_the_end = false;
  std::condition_variable somebody_left;
  int aborts = 0;
  bool aborts_hang = false;
  int splits_second = -1;  ///< this rank's splits begin after that of another rank
  std::condition_variable a_split_began;
};

/// NCCL over host memory, as one rank has it.
[[nodiscard]] std::unique_ptr<nccl::Api> make_mock_nccl(MockMachine& machine, MockNetwork& network,
                                                        int rank);

}  // namespace tutti::test
