#include "backend_contract.hpp"
#include "mock_staged_arrangement.hpp"
#include "support/rotation.hpp"

// Tensors of GPUs on our own engine, over a mock of CUDA's driver: what every backend promises and
// what our engine does, that every access of a stream and of the host is ordered, and that nothing
// is left behind. All ranks use one GPU.
namespace tutti::test {
namespace {

std::vector<Arrangement> arrangements(const std::vector<int>& sizes) {
  return mock_staged_arrangements(sizes, false);
}

std::string name_of(const testing::TestParamInfo<Arrangement>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Staged, BackendContract, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Staged, BackendContractOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);
INSTANTIATE_TEST_SUITE_P(Staged, BackendPromises, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Staged, BackendPromisesOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);

}  // namespace
}  // namespace tutti::test
