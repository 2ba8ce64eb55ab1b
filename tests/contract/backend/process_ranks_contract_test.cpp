#include <cstdlib>

#include "backend_contract.hpp"

// Ranks as processes, started by tuttirun: each test makes a world of its own.
namespace tutti::test {
namespace {

using Transport = Config::TransportChoice;

Arrangement processes(std::string name, int size, std::function<void(Config&)> change) {
  Arrangement one;
  one.name = std::move(name);
  one.size = size;
  one.run = [change = std::move(change)](const Arrangement::Body& body) {
    Config config = Config::from_environment().value();
    config.timeout = kForever;
    change(config);
    ProcessGroup world = init_process_group({.config = config});
    body(world);
    // Who is ahead must not end before the others have what they wait for.
    if (world.health().ok()) world.barrier().wait();
  };
  return one;
}

/// As the launcher has said; none with fewer ranks than `least`.
std::vector<Arrangement> launched(int least) {
  const char* const text = std::getenv("WORLD_SIZE");
  const char* const rank = std::getenv("RANK");
  const int size = text == nullptr ? 1 : std::atoi(text);
  if (size < least) return {};
  std::vector<Arrangement> all;
  all.push_back(processes("Shm", size, [](Config&) {}));
  all.push_back(processes("Tcp", size, [](Config& config) { config.transport = Transport::tcp; }));
  const bool odd = rank != nullptr && std::atoi(rank) % 2 == 1;
  all.push_back(
      processes("Mixed", size, [odd](Config& config) { config.host_id = odd ? "odd" : "even"; }));
  return all;
}

std::string name_of(const testing::TestParamInfo<Arrangement>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Processes, BackendContract, testing::ValuesIn(launched(1)), name_of);
INSTANTIATE_TEST_SUITE_P(Processes, BackendContractOfSeveral, testing::ValuesIn(launched(2)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Processes, BackendPromises, testing::ValuesIn(launched(1)), name_of);
INSTANTIATE_TEST_SUITE_P(Processes, BackendPromisesOfSeveral, testing::ValuesIn(launched(2)),
                         name_of);

}  // namespace
}  // namespace tutti::test
