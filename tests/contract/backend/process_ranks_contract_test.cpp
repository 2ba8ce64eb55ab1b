#include "backend_contract.hpp"

// Ranks as processes, started by tuttirun: each test makes a world of its own.
namespace tutti::test {
namespace {

Arrangement processes(std::string name, std::function<void(Config&)> change) {
  Arrangement one;
  one.name = std::move(name);
  one.size = number_of("WORLD_SIZE", 1);
  one.run = [change = std::move(change)](const Arrangement::Body& body) {
    Config config = Config::from_environment().value();
    change(config);
    run_launched(config, body);
  };
  return one;
}

/// As the launcher has said.
std::vector<Arrangement> launched_processes() {
  const bool odd = number_of("RANK", 0) % 2 == 1;
  return {processes("Shm", [](Config&) {}),
          processes("Tcp", [](Config& config) { config.transport = Config::TransportChoice::tcp; }),
          processes("Mixed", [odd](Config& config) { config.host_id = odd ? "odd" : "even"; })};
}

INSTANTIATE_TEST_SUITE_P(Processes, BackendContract, testing::ValuesIn(launched_processes()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Processes, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(launched_processes())), name_of);

}  // namespace
}  // namespace tutti::test
