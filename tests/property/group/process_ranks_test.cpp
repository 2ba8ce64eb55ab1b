#include "programs.hpp"

#include <algorithm>

// The same programs with real processes, started by tuttirun; tests/ranks_main.cpp makes no world.
namespace tutti {
namespace {

/// As the launcher has said, encrypted or not.
Config configured() { return Config::from_environment().value(); }

TEST(ProcessRanks, GiveKnownResultsAgainAndAgain) {
  for (std::uint64_t world_number = 0; world_number < 3;
       ++world_number) {  // on one port, one after the other
    ProcessGroup world = init_process_group();
    EXPECT_TRUE(is_initialized());
    test::run_program(world, 11 + world_number, 10, 200'000);
    std::vector<int> odd;
    for (int r = 1; r < world.size(); r += 2) odd.push_back(r);
    if (!odd.empty()) {
      if (std::optional<ProcessGroup> group = world.new_group(odd)) {
        test::run_program(*group, 23, 5, 50'000);
      }
    }
    world.barrier().wait();
  }
  EXPECT_FALSE(is_initialized());
}

TEST(ProcessRanks, GiveTheSameOverTcp) {
  Config config = configured();
  config.transport = Config::TransportChoice::tcp;
  ProcessGroup world = init_process_group({.config = config});
  test::run_program(world, 31, 10, 200'000);
}

TEST(ProcessRanks, GiveTheSameByMessagesOfOneHost) {
  for (const char* const algorithms :
       {"all_reduce:ring,broadcast:binomial_broadcast,barrier:direct_barrier",
        "all_reduce:direct,broadcast:scatter_all_gather_broadcast,barrier:dissemination_barrier"}) {
    Config config = configured();
    config.algorithms = algorithms;
    ProcessGroup world = init_process_group({.config = config});
    test::run_program(world, 37, 10, 200'000);
  }
}

TEST(ProcessRanks, GiveTheSameOnTwoHosts) {
  // As if every second rank ran elsewhere: shared memory inside, TCP between.
  const char* const rank = std::getenv("RANK");
  ASSERT_NE(rank, nullptr);
  Config config = configured();
  config.host_id = std::atoi(rank) % 2 == 0 ? "even" : "odd";
  ProcessGroup world = init_process_group({.config = config});
  test::run_program(world, 41, 10, 200'000);
}

}  // namespace
}  // namespace tutti
