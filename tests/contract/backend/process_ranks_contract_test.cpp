#include "backend_contract.hpp"

// Ranks as processes, started by tuttirun: each test makes a world of its own.
namespace tutti::test {
namespace {

/// As the launcher has said.
std::vector<Arrangement> launched_processes() {
  const bool odd = number_of("RANK", 0) % 2 == 1;
  const auto by_tcp = [](Config& config) { config.transport = Config::TransportChoice::tcp; };
  const auto on_two = [odd](Config& config) { config.host_id = odd ? "odd" : "even"; };
  return {launched_arrangement("Shm"), launched_arrangement("Tcp", {}, by_tcp),
          launched_arrangement("Mixed", {}, on_two)};
}

INSTANTIATE_TEST_SUITE_P(Processes, BackendContract, testing::ValuesIn(launched_processes()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Processes, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(launched_processes())), name_of);

}  // namespace
}  // namespace tutti::test
