#include "block_programs.hpp"

#include <algorithm>

#include "support/rotation.hpp"
#include "support/sanitized.hpp"

// The operations on blocks with ranks as threads: what tsan can see.
namespace tutti {
namespace {

constexpr int kBlockRounds = test::kSanitized ? 6 : 25;

class BlockRanks : public testing::TestWithParam<int> {};

TEST_P(BlockRanks, GiveKnownResultsInEveryForm) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    run_threads(GetParam(), [&](ProcessGroup& world) {
      test::run_blocks<float>(world, seed, kBlockRounds, 60'000);
      test::run_blocks<std::int64_t>(world, seed + 10, kBlockRounds / 3, 20'000);
    });
  }
}

TEST_P(BlockRanks, GiveTheSameOverTcp) {
  for (const bool tls : {false, true}) {
    Config config;
    config.transport = Config::TransportChoice::tcp;
    config.tls = tls;
    run_threads(
        GetParam(),
        [&](ProcessGroup& world) {
          test::run_blocks<double>(world, 5, kBlockRounds, 30'000);
          test::run_blocks<std::int32_t>(world, 6, kBlockRounds / 3, 60'000);
        },
        config);
  }
}

TEST_P(BlockRanks, TakeSplitsThatChangeFromCallToCall) {
  run_threads(GetParam(), [&](ProcessGroup& world) {
    std::mt19937_64 random(9);
    std::mt19937_64 own(static_cast<std::uint64_t>(world.rank()));
    for (int i = 0; i < 2 * kBlockRounds; ++i) {
      test::BlockCall<float> call(world, Kind::all_to_all, random, own, 5000);
      call.start(world).wait();
      call.check();
    }
  });
}

TEST_P(BlockRanks, TellOfSplitsThatDoNotFit) {
  if (GetParam() == 1) {  // nobody to disagree with but oneself: told at the call
    run_threads(1, [](ProcessGroup& world) {
      std::vector<float> in(4, 1);
      std::vector<float> out(3);
      const std::vector<std::size_t> four{4};
      const std::vector<std::size_t> three{3};
      EXPECT_THROW((void)world.all_to_all(out, in, {.output_splits = three, .input_splits = four}),
                   InvalidArgument);
    });
    return;
  }
  run_threads(GetParam(), [&](ProcessGroup& world) {
    const auto n = static_cast<std::size_t>(world.size());
    std::vector<std::size_t> splits(n, 3);
    if (world.rank() == 0) splits[n - 1] = 4;  // the last rank expects 3
    std::size_t all = 0;
    for (const std::size_t one : splits) all += one;
    std::vector<float> in(all, 1);
    std::vector<float> out(3 * n);
    const std::vector<std::size_t> expected(n, 3);
    try {
      world.all_to_all(out, in, {.output_splits = expected, .input_splits = splits}).wait();
      world.barrier().wait();
      FAIL() << "rank " << world.rank() << " did not learn it";
    } catch (const DisagreementError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("sends 4 elements"), std::string::npos) << text;
      EXPECT_NE(text.find("expects 3"), std::string::npos) << text;
    }
  });
}

TEST_P(BlockRanks, GiveInPlaceWhatTheyGiveElsewhere) {
  run_threads(GetParam(), [&](ProcessGroup& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{50'000}}) {
      std::vector<double> all(n * count, -1);
      const std::span<double> own = std::span(all).subspan(me * count, count);
      std::fill(own.begin(), own.end(), static_cast<double>(me));
      world.all_gather(all, own).wait();
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], static_cast<double>(i / count));
      world.reduce_scatter(own, all).wait();
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto block = i / count;
        ASSERT_EQ(all[i], static_cast<double>(block == me ? block * n : block)) << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlockRanks, testing::ValuesIn(test::world_sizes()));

}  // namespace
}  // namespace tutti
