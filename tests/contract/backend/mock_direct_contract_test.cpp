#include "backend_contract.hpp"
#include "mock_staged_arrangement.hpp"
#include "support/rotation.hpp"

// Tensors that go from GPU to GPU, over a mock of CUDA's driver with memory that ranks share: what
// every backend promises, that every access of a stream and of the host is ordered, also between
// ranks, and that nothing is left behind.
namespace tutti::test {
namespace {

std::vector<Arrangement> arrangements(const std::vector<int>& sizes) {
  return mock_staged_arrangements(sizes, true);
}

std::string name_of(const testing::TestParamInfo<Arrangement>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Direct, BackendContract, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Direct, BackendContractOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);
INSTANTIATE_TEST_SUITE_P(Direct, BackendPromises, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Direct, BackendPromisesOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);

}  // namespace
}  // namespace tutti::test
