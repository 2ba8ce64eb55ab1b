#include "backend_contract.hpp"
#include "mock_nccl_ranks.hpp"
#include "support/rotation.hpp"

// The backend on NCCL, over mocks of NCCL and of CUDA's driver: what every backend promises, that
// every access of a stream is ordered, and that nothing is left behind.
namespace tutti::test {
namespace {

/// `staged`: as on a real GPU (nccl_gpu_contract_test.cpp).
Arrangement mock(int size, bool staged) {
  Arrangement one;
  one.name = (staged ? "StagedMockNccl" : "MockNccl") + std::to_string(size);
  one.size = size;
  one.backend = kMockNcclBackend;
  one.lacks.assign(std::begin(nccl::kLacks), std::end(nccl::kLacks));
  one.run = [size, staged](const Arrangement::Body& body) {
    Config config;
    config.timeout = kForever;
    MockNcclWorld world(size);
    run_mock_nccl(world, size, config, false, body, nullptr, staged);
    EXPECT_EQ(world.machine.misuses(), "");
    EXPECT_EQ(world.machine.leaks(), "");
  };
  return one;
}

std::vector<Arrangement> arrangements(const std::vector<int>& sizes) {
  make_mock_nccl_known();
  std::vector<Arrangement> all;
  for (const int size : sizes) all.push_back(mock(size, false));
  all.push_back(mock(3, true));
  return all;
}

std::string name_of(const testing::TestParamInfo<Arrangement>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Nccl, BackendContract, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Nccl, BackendContractOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);
INSTANTIATE_TEST_SUITE_P(Nccl, BackendPromises, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Nccl, BackendPromisesOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);

}  // namespace
}  // namespace tutti::test
