#include "backend_contract.hpp"
#include "mock_staged_ranks.hpp"

// Tensors that go from GPU to GPU, over a mock of CUDA's driver with memory that ranks share: what
// every backend promises, that every access of a stream and of the host is ordered, also between
// ranks, and that nothing is left behind.
namespace tutti::test {

INSTANTIATE_TEST_SUITE_P(Direct, BackendContract, testing::ValuesIn(mock_staged_worlds(true)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Direct, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(mock_staged_worlds(true))), name_of);

}  // namespace tutti::test
