#include "block_programs.hpp"
#include "programs.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <tutti/backend.hpp>

#include "support/rotation.hpp"
#include "support/sanitized.hpp"

// Algorithms that go by messages, asked for by name, among ranks of one host: their frames go
// through the rings.
namespace tutti {
namespace {

constexpr int kMessageRounds = test::kSanitized ? 3 : 15;

constexpr std::array kAlgorithms{
    "all_reduce:ring,broadcast:binomial_broadcast,barrier:direct_barrier",
    "all_reduce:direct,broadcast:scatter_all_gather_broadcast,barrier:dissemination_barrier",
    "all_reduce:exchange,broadcast:broadcast_one_shot,barrier:region_barrier",
    "all_reduce:binomial,broadcast:binomial_broadcast,barrier:region_barrier",
    "all_reduce:recursive_doubling,broadcast:binomial_broadcast,barrier:region_barrier",
};

class MessageRanks : public testing::TestWithParam<int> {};

TEST_P(MessageRanks, GiveKnownResultsWhateverTheAlgorithm) {
  for (const char* const algorithms : kAlgorithms) {
    SCOPED_TRACE(algorithms);
    Config config;
    config.algorithms = algorithms;
    run_threads(
        GetParam(),
        [&](ProcessGroup& world) { test::run_program(world, 7, kMessageRounds, 120'000); }, config);
  }
}

TEST_P(MessageRanks, GiveBlocksByHalving) {
  Config config;
  config.algorithms = "reduce_scatter:recursive_halving";
  run_threads(
      GetParam(),
      [](ProcessGroup& world) {
        test::run_blocks<std::int64_t>(world, 8, kMessageRounds, 20'000);  // exact in any order
      },
      config);
}

TEST_P(MessageRanks, ReuseTheRingManyTimes) {
  Config config;
  config.algorithms = "all_reduce:direct";
  run_threads(
      GetParam(),
      [&](ProcessGroup& world) {
        std::vector<int> data(1'000'000);
        for (int round = 0; round < 4; ++round) {
          std::fill(data.begin(), data.end(), world.rank() + round);
          world.all_reduce(data).wait();
          const int n = world.size();
          const int sum = n * (n - 1) / 2 + n * round;
          ASSERT_EQ(std::count(data.begin(), data.end(), sum), std::ssize(data));
        }
      },
      config);
}

INSTANTIATE_TEST_SUITE_P(Sizes, MessageRanks, testing::ValuesIn(test::world_sizes_of_several()));

TEST(MessageRanksOfOneHost, ProgressWhatNobodyWaitsFor) {
  Config config;
  config.algorithms = "all_reduce:ring";
  std::atomic<int> done{0};
  run_threads(
      3,
      [&](ProcessGroup& world) {
        std::vector<int> data(300'000, 1);
        Work work = world.all_reduce(data);
        work.on_done(Callback{[](void* context, const Status& status) noexcept {
                                if (status.ok()) ++*static_cast<std::atomic<int>*>(context);
                              },
                              &done});
        // Nobody drives here: the ends come by the progress thread alone.
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (done < 3 && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_EQ(done, 3);
        work.wait();
        EXPECT_EQ(data.back(), 3);
      },
      config);
}

TEST(MessageRanksOfOneHost, WhatARankSentBeforeItLeftArrives) {
  Config config;
  config.algorithms = "broadcast:binomial_broadcast";
  for (int round = 0; round < 20; ++round) {
    run_threads(
        2,
        [&](ProcessGroup& world) {
          std::vector<int> data(10'000, world.rank() == 0 ? 5 : 0);
          // The root is done as soon as its frames are written, and leaves.
          if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
          world.broadcast(data, {.root = 0}).wait();
          EXPECT_EQ(data.back(), 5);
        },
        config);
  }
}

TEST(MessageRanksOfOneHost, WhoHasLeftIsNamed) {
  Config config;
  config.algorithms = "all_reduce:ring";
  config.timeout = std::chrono::seconds(20);
  run_threads(
      3,
      [&](ProcessGroup& world) {
        if (world.rank() == 2) return;
        std::vector<int> data(1'000'000, 1);
        try {
          world.all_reduce(data).wait();
          ADD_FAILURE() << "rank 2 never called";
        } catch (const NetworkError& error) {
          EXPECT_EQ(error.code(), Errc::peer_left);
          EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
        }
      },
      config);
}

TEST(MessageRanksOfOneHost, WhoNeverCallsIsBlamedForTheTimeout) {
  Config config;
  config.algorithms = "all_reduce:ring";
  std::atomic<int> failed{0};
  run_threads(
      3,
      [&](ProcessGroup& world) {
        std::vector<int> data(1'000'000, 1);
        world.barrier().wait();  // the others call at once: nobody else is late
        world.set_timeout(std::chrono::milliseconds(400));
        if (world.rank() == 1) {  // computes, and answers nothing meanwhile
          const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
          while (failed < 2 && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          return;
        }
        try {
          world.all_reduce(data).wait();
          ADD_FAILURE() << "rank 1 never called";
        } catch (const TimeoutError& error) {
          const std::string text = error.what();
          EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
          EXPECT_NE(text.find("has not made this call yet"), std::string::npos) << text;
        }
        ++failed;
      },
      config);
}

TEST(MessageRanksOfOneHost, CallsThatDifferAreAnErrorWhicheverWayTheyGo) {
  Config config;
  config.algorithms = "all_reduce:ring";  // the barrier goes by lines
  config.timeout = std::chrono::seconds(20);
  std::atomic<int> errors{0};
  run_threads(
      3,
      [&](ProcessGroup& world) {
        std::vector<int> data(1'000'000, 1);
        try {
          if (world.rank() == 1)
            world.barrier().wait();
          else
            world.all_reduce(data).wait();
        } catch (const DisagreementError&) {
          ++errors;
        }
      },
      config);
  EXPECT_EQ(errors, 3);
}

}  // namespace
}  // namespace tutti
