#include "backend_contract.hpp"
#include "mock_staged_ranks.hpp"

// Tensors of GPUs on our own engine, over a mock of CUDA's driver: what every backend promises and
// what our engine does, that every access of a stream and of the host is ordered, and that nothing
// is left behind. All ranks use one GPU.
namespace tutti::test {

INSTANTIATE_TEST_SUITE_P(Staged, BackendContract, testing::ValuesIn(mock_staged_worlds(false)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Staged, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(mock_staged_worlds(false))), name_of);

}  // namespace tutti::test
