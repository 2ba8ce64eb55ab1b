#include "backend_contract.hpp"
#include "mock_mpi_ranks.hpp"
#include "support/rotation.hpp"

// The backend on MPI, over a mock of MPI: what it promises with and without comparing calls, and
// that a failure of any call of MPI is told on every rank and leaves nobody waiting.
namespace tutti::test {
namespace {

std::vector<Arrangement> mock_mpi_worlds() {
  std::vector<Arrangement> all;
  for (const int size : world_sizes()) {
    all.push_back(
        {.name = "MockMpi" + std::to_string(size),
         .size = size,
         .run = [size](const Arrangement::Body& body) { run_mock_mpi(MockMpi(size), body); },
         .backend = std::string(kMockMpiBackend),
         .waiting_message = std::size_t{1} << 20,
         .takes_any_message = [] { return true; }});  // the mock copies it
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Mpi, BackendContract, testing::ValuesIn(mock_mpi_worlds()), name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(mock_mpi_worlds())), name_of);

}  // namespace
}  // namespace tutti::test
