#include <gmock/gmock.h>

#include "programs.hpp"
#include "support/called_back.hpp"
#include "support/sanitized.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Algorithms that go by messages, asked for by name, among ranks of one host: their frames go
// through the rings.
namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::Told;
using test::told;
using test::World;
using testing::HasSubstr;

constexpr int kMessageRounds = test::kSanitized ? 3 : 15;

World::Change by(const char* algorithms) {
  return [algorithms](Config& config) { config.algorithms = algorithms; };
}

class MessageRanks : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, MessageRanks,
                         testing::ValuesIn(test::worlds(test::world_sizes_of_several(),
                                                        {test::Way::shm})),
                         test::world_name);

TEST_P(MessageRanks, GiveKnownResultsWhateverTheAlgorithm) {
  for (const char* const algorithms :
       {"all_reduce:ring,broadcast:binomial_broadcast,barrier:direct_barrier",
        "all_reduce:direct,broadcast:scatter_all_gather_broadcast,barrier:dissemination_barrier",
        "all_reduce:exchange,broadcast:broadcast_one_shot,barrier:region_barrier",
        "all_reduce:binomial,broadcast:binomial_broadcast,barrier:region_barrier",
        "all_reduce:recursive_doubling,broadcast:binomial_broadcast,barrier:region_barrier"}) {
    SCOPED_TRACE(algorithms);
    run(
        [](ProcessGroup& world) {
          test::run(world, {.seed = 7, .rounds = kMessageRounds, .most = 120'000});
        },
        by(algorithms));
  }
}

TEST_P(MessageRanks, GiveBlocksByHalving) {
  run(
      [](ProcessGroup& world) {
        test::run(
            world,
            {.seed = 8, .rounds = kMessageRounds, .most = 20'000, .kinds = test::kBlockKinds});
      },
      by("reduce_scatter:recursive_halving"));
}

TEST_P(MessageRanks, ReuseTheRingManyTimes) {
  run(
      [](ProcessGroup& world) {
        std::vector<int> data(1'000'000);
        for (int round = 0; round < 4; ++round) {
          std::fill(data.begin(), data.end(), world.rank() + round);
          world.all_reduce(data).wait();
          const int n = world.size();
          const int sum = n * (n - 1) / 2 + n * round;
          ASSERT_EQ(std::count(data.begin(), data.end(), sum), std::ssize(data));
        }
      },
      by("all_reduce:direct"));
}

TEST(MessageRanksOfOneHost, ProgressWhatNobodyWaitsFor) {
  std::atomic<int> done{0};
  World{3}.run(
      [&](ProcessGroup& world) {
        std::vector<int> data(300'000, 1);
        Work work = world.all_reduce(data);
        work.on_done(test::counts_in(done));
        // No rank drives here: the ends come by the progress threads alone.
        test::wait_for([&] { return done == 3; });
        work.wait();
        EXPECT_EQ(data.back(), 3);
      },
      by("all_reduce:ring"));
}

TEST(MessageRanksOfOneHost, WhatARankSentBeforeItLeftArrives) {
  for (int round = 0; round < 20; ++round) {
    World{2}.run(
        [&](ProcessGroup& world) {
          std::vector<int> data(10'000, world.rank() == 0 ? 5 : 0);
          // The root is done as soon as its frames are written, and leaves: before rank 1 calls, or
          // after.
          if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(round % 4));
          world.broadcast(data, {.root = 0}).wait();
          EXPECT_EQ(data.back(), 5);
        },
        by("broadcast:binomial_broadcast"));
  }
}

TEST(MessageRanksOfOneHost, ARankThatHasLeftIsNamed) {
  World{3}.run(
      [](ProcessGroup& world) {
        if (world.rank() == 2) return;
        std::vector<int> data(1'000'000, 1);
        const Told error = told<NetworkError>([&] { world.all_reduce(data).wait(); });
        EXPECT_EQ(error.code, Errc::peer_left);
        EXPECT_EQ(error.culprit, 2) << error.text;
      },
      by("all_reduce:ring"));
}

/// Rank 0 calls last: the other rank that calls cannot be late, however busy the machine is.
TEST(MessageRanksOfOneHost, ARankThatNeverCallsIsBlamedForTheTimeout) {
  std::atomic<bool> called{false};
  std::atomic<int> failed{0};
  World{3}.run(
      [&](ProcessGroup& world) {
        std::vector<int> data(1'000'000, 1);
        world.barrier().wait();   // all have made the world
        if (world.rank() == 1) {  // computes, and answers nothing meanwhile
          test::wait_for([&] { return failed == 2; });
          return;
        }
        if (world.rank() == 0) test::wait_for([&] { return called.load(); });
        Work work = world.all_reduce(
            data, {.timeout = world.rank() == 0 ? milliseconds(400) : milliseconds(60'000)});
        called = true;
        const Told error = told<TimeoutError>([&] { work.wait(); });
        EXPECT_EQ(error.culprit, 1) << error.text;
        EXPECT_THAT(error.text, HasSubstr("has not made this call yet"));
        ++failed;
      },
      by("all_reduce:ring"));
}

TEST(MessageRanksOfOneHost, CallsThatDifferAreAnErrorWhicheverWayTheyGo) {
  // The barrier goes by arrival lines.
  World{3}.run(
      [](ProcessGroup& world) {
        std::vector<int> data(1'000'000, 1);
        EXPECT_THROW((world.rank() == 1 ? world.barrier() : world.all_reduce(data)).wait(),
                     DisagreementError);
      },
      by("all_reduce:ring"));
}

}  // namespace
}  // namespace tutti
