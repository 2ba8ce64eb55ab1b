#include "block_programs.hpp"
#include "group_churn.hpp"
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

TEST(ProcessRanks, KeepNoSlotsOfGroupsThatAreClosed) {
  ProcessGroup world = init_process_group();
  test::churn_groups(world, 43, 300);
}

TEST(ProcessRanks, TakeSeveralTensorsAtOnceAndWaitForTheLatest) {
  const char* const rank = std::getenv("RANK");
  ASSERT_NE(rank, nullptr);
  for (const bool two_hosts : {false, true}) {
    Config config = configured();
    if (two_hosts) config.host_id = std::atoi(rank) % 2 == 0 ? "even" : "odd";
    ProcessGroup world = init_process_group({.config = config});
    std::vector<int> few(3, 1);
    std::vector<int> many(300'000, world.rank());
    std::vector<int> none;
    const std::vector<TensorView> all{view_of(few), view_of(none), view_of(many)};
    for (int round = 0; round < 5; ++round) {
      std::fill(few.begin(), few.end(), 1);
      std::fill(many.begin(), many.end(), world.rank());
      world.all_reduce_coalesced(all).wait();
      EXPECT_EQ(few, std::vector<int>(3, world.size()));
      EXPECT_EQ(many, std::vector<int>(300'000, world.size() * (world.size() - 1) / 2));
      world.monitored_barrier({.wait_all_ranks = round % 2 == 0});
    }
  }
}

/// Half of the ranks on another host, as runs (which sums need) or dealt out.
TEST(ProcessRanks, GiveBlocksAndSumsToOneOnTwoHosts) {
  const char* const text = std::getenv("RANK");
  const char* const count = std::getenv("WORLD_SIZE");
  ASSERT_TRUE(text != nullptr && count != nullptr);
  const int rank = std::atoi(text);
  for (const bool runs : {true, false}) {
    Config config = configured();
    config.host_id = (runs ? rank < std::atoi(count) / 2 : rank % 2 == 0) ? "one" : "other";
    ProcessGroup world = init_process_group({.config = config});
    test::run_blocks<float>(world, 12, 20, 400);
    test::run_blocks<std::int64_t>(world, 13, 10, 30'000);
    for (const std::size_t elements : {std::size_t{1}, std::size_t{12}, std::size_t{5000}}) {
      for (int root = 0; root < world.size(); ++root) {
        std::vector<float> values(elements, static_cast<float>(world.rank() + 1));
        world.reduce(values, {.root = root}).wait();
        const int n = world.size();
        const float expected = static_cast<float>(rank == root ? n * (n + 1) / 2 : rank + 1);
        EXPECT_EQ(values, std::vector<float>(elements, expected));
      }
    }
  }
}

}  // namespace
}  // namespace tutti
