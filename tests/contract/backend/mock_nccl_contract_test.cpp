#include "backend_contract.hpp"
#include "mock_nccl_ranks.hpp"
#include "support/rotation.hpp"

// The backend on NCCL, over mocks of NCCL and of CUDA's driver: what every backend promises, that
// every access of a stream is ordered, and that nothing is left behind.
namespace tutti::test {
namespace {

/// `copied`: as on a real GPU (nccl_gpu_contract_test.cpp).
Arrangement mock_nccl_world(int size, bool copied) {
  return {.name = (copied ? "CopiedMockNccl" : "MockNccl") + std::to_string(size),
          .size = size,
          .run =
              [=](const Arrangement::Body& body) {
                run_nccl(MockNcclWorld(size), {.plain = false, .copied = copied}, body);
              },
          .backend = std::string(kMockNcclBackend),
          .lacks = {std::begin(nccl::kLacks), std::end(nccl::kLacks)}};
}

std::vector<Arrangement> mock_nccl_worlds() {
  make_mock_nccl_known();
  std::vector<Arrangement> all;
  for (const int size : world_sizes()) all.push_back(mock_nccl_world(size, false));
  all.push_back(mock_nccl_world(3, true));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nccl, BackendContract, testing::ValuesIn(mock_nccl_worlds()), name_of);
INSTANTIATE_TEST_SUITE_P(Nccl, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(mock_nccl_worlds())), name_of);

}  // namespace
}  // namespace tutti::test
