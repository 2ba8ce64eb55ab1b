#include "backend_contract.hpp"
#include "mock_mpi_ranks.hpp"
#include "support/rotation.hpp"

// The backend on MPI, over a mock of MPI: what it promises with and without comparing calls, and
// that a failure of any call of MPI is told on every rank and leaves nobody waiting.
namespace tutti::test {
namespace {

Arrangement mock(int size) {
  Arrangement one;
  one.name = "MockMpi" + std::to_string(size);
  one.size = size;
  one.backend = kMockMpiBackend;
  one.run = [size](const Arrangement::Body& body) {
    Config config;
    config.timeout = kForever;
    MockMpi mpi(size);
    run_mock_mpi(mpi, config, body);
  };
  return one;
}

std::vector<Arrangement> arrangements(const std::vector<int>& sizes) {
  std::vector<Arrangement> all;
  for (const int size : sizes) all.push_back(mock(size));
  return all;
}

std::string name_of(const testing::TestParamInfo<Arrangement>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Mpi, BackendContract, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, BackendContractOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, BackendPromises, testing::ValuesIn(arrangements(world_sizes())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, BackendPromisesOfSeveral,
                         testing::ValuesIn(arrangements(world_sizes_of_several())), name_of);

}  // namespace
}  // namespace tutti::test
