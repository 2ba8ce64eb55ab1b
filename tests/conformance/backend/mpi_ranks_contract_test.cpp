#include <cstdlib>

#include "backend_contract.hpp"

// The backend on MPI, as a plug-in over the MPI that has started this process by its mpirun. One
// process without a launcher is a world of one rank.
namespace tutti::test {
namespace {

/// What the launcher has started; none with fewer ranks than `least`.
std::vector<Arrangement> launched(int least) {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (size == nullptr) size = std::getenv("PMI_SIZE");
  Arrangement one;
  one.name = "Mpi";
  one.size = size == nullptr ? 1 : std::atoi(size);
  if (one.size < least) return {};
  one.run = [](const Arrangement::Body& body) {
    Config config = Config::from_environment().value();
    config.timeout = kForever;
    config.backend = "mpi";
    ProcessGroup world = init_process_group({.config = config});
    body(world);
    // Who is ahead must not end before the others have what they wait for.
    if (world.health().ok()) world.barrier().wait();
  };
  return {one};
}

std::string name_of(const testing::TestParamInfo<Arrangement>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Launched, BackendContract, testing::ValuesIn(launched(1)), name_of);
INSTANTIATE_TEST_SUITE_P(Launched, BackendContractOfSeveral, testing::ValuesIn(launched(2)),
                         name_of);

}  // namespace
}  // namespace tutti::test
