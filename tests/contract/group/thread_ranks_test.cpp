#include <gmock/gmock.h>

#include <future>
#include <mutex>
#include <numeric>

#include "programs.hpp"
#include "support/coroutine.hpp"
#include "support/long_tests.hpp"
#include "support/sanitized.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Ranks as threads over the real mapping and over TCP: what tsan can see.
namespace tutti {
namespace {

using test::kSanitized;
using test::Way;
using testing::HasSubstr;

class ThreadRanks : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadRanks,
                         testing::ValuesIn(test::worlds(
                             test::world_sizes(), {Way::shm, Way::tcp, Way::tls, Way::mixed})),
                         test::world_name);

TEST_P(ThreadRanks, GiveKnownResultsInAnyOrderOfWaiting) {
  static constexpr Kind kExchange[] = {Kind::all_to_all};
  const std::uint64_t seeds = GetParam().way == Way::shm ? 3 : 1;
  for (const test::Program& program :
       {test::Program{.rounds = kSanitized ? 6 : 30, .most = 120'000},
        test::Program{.rounds = kSanitized ? 8 : 33, .most = 60'000, .kinds = test::kBlockKinds},
        // With splits that change from call to call.
        test::Program{
            .seed = 9, .rounds = kSanitized ? 6 : 20, .most = 5000, .kinds = kExchange}}) {
    for (std::uint64_t more = 0; more < seeds; ++more) {
      test::Program own = program;
      own.seed += more;
      run([&](ProcessGroup& world) { test::run(world, own); });
    }
  }
}

TEST_P(ThreadRanks, GiveInPlaceWhatTheyGiveElsewhere) {
  run([](ProcessGroup& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{50'000}}) {
      SCOPED_TRACE(count);
      const auto place = [&](std::vector<double>& all, std::size_t block) {
        return std::span(all).subspan(block * count, count);
      };
      std::vector<double> all(n * count, -1);
      std::vector<double> expected(n * count);
      for (std::size_t block = 0; block < n; ++block)
        std::ranges::fill(place(expected, block), static_cast<double>(block));
      std::ranges::fill(place(all, me), static_cast<double>(me));
      world.all_gather(all, place(all, me)).wait();
      EXPECT_TRUE(all == expected) << "all_gather";
      world.reduce_scatter(place(all, me), all).wait();
      std::ranges::fill(place(expected, me), static_cast<double>(me * n));
      EXPECT_TRUE(all == expected) << "reduce_scatter";
    }
  });
}

/// Most of the time goes into filling all slots at the end.
TEST(ThreadRanksChurn, LeavesNoSlotTaken) {
  for (const int size : test::long_tests() ? test::world_sizes_of_several() : std::vector{3}) {
    SCOPED_TRACE(size);
    test::World{size}.run(
        [](ProcessGroup& world) { test::churn_groups(world, 7, kSanitized ? 200 : 1000); });
  }
}

/// One rank calls something else; all must learn it, in this call or the next, naming both.
class Disagreeing : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Table, Disagreeing,
                         testing::ValuesIn(test::worlds(test::world_sizes_of_several(),
                                                        {Way::shm, Way::tcp})),
                         test::world_name);

struct Disagreement {
  const char* name;
  void (*call)(ProcessGroup& world, bool odd_one, std::vector<float>& data);
};
constexpr Disagreement kDisagreements[] = {
    {"kind",
     [](ProcessGroup& world, bool odd, std::vector<float>& data) {
       (odd ? world.barrier() : world.all_reduce(data)).wait();
     }},
    {"dtype",
     [](ProcessGroup& world, bool odd, std::vector<float>& data) {
       const DType dtype = odd ? DType::int32 : DType::float32;
       world.all_reduce(TensorView(data.data(), dtype, data.size())).wait();
     }},
    {"count",
     [](ProcessGroup& world, bool odd, std::vector<float>& data) {
       world.all_reduce(std::span(data).first(odd ? 32 : 64)).wait();
     }},
    {"op",
     [](ProcessGroup& world, bool odd, std::vector<float>& data) {
       world.all_reduce(data, {.op = odd ? ReduceOp::max : ReduceOp::sum}).wait();
     }},
    {"root",
     [](ProcessGroup& world, bool odd, std::vector<float>& data) {
       world.broadcast(data, {.root = odd ? world.size() - 1 : 0}).wait();
     }},
    {"order",
     [](ProcessGroup& world, bool odd, std::vector<float>& data) {
       if (odd) world.barrier().wait();
       world.all_reduce(data).wait();
       if (!odd) world.barrier().wait();
     }},
};

TEST_P(Disagreeing, RanksAllGetAnErrorThatNamesBoth) {
  for (const Disagreement& what : kDisagreements) {
    SCOPED_TRACE(what.name);
    run([&](ProcessGroup& world) {
      const std::vector<float> before(64, static_cast<float>(world.rank()));
      std::vector<float> data = before;
      const auto error = test::told<DisagreementError>([&] {
        what.call(world, world.rank() == world.size() - 1, data);
        std::vector<float> next(1);
        world.all_reduce(next).wait();
        world.barrier().wait();
      });
      EXPECT_THAT(error.text, HasSubstr(" called "));
      EXPECT_FALSE(world.health().ok());
      // Of two roots a rank that gets from the other may be right to.
      if (std::string(what.name) != "root") {
        EXPECT_EQ(data, before) << "an output was written";
      }
    });
  }
}

class ThreadRanksStrict : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Transports, ThreadRanksStrict,
                         testing::ValuesIn(test::worlds({3}, {Way::shm, Way::tcp})),
                         test::world_name);

TEST_P(ThreadRanksStrict, LetNobodyReturnBeforeAllWereCompared) {
  std::atomic<bool> looked{false};
  const auto rank = [&](ProcessGroup& world) {
    std::vector<float> data(8, 1);
    const bool odd = world.rank() == 2;
    if (odd) test::wait_for([&] { return looked.load(); });
    // The root of a broadcast alone would not wait for anybody.
    Work work = world.broadcast(std::span(data).first(odd ? 4 : 8));
    if (world.rank() == 0) {
      EXPECT_FALSE(work.wait_for(std::chrono::milliseconds(100))) << "one has not come yet";
      looked = true;
    }
    EXPECT_THROW(work.wait(), DisagreementError);
  };
  run(rank, [](Config& config) { config.agree = Config::Agree::strict; });
}

test::Coroutine add_twice(ProcessGroup& world, std::vector<int>& data,
                          std::promise<std::string>& end) {
  try {
    co_await world.all_reduce(data);
    co_await world.all_reduce(data);
    co_await world.barrier();  // a rank that comes to the next call knows that all have the sum
    co_await world.all_reduce(std::span(data).first(world.rank() == 0 ? 1 : 2));
    end.set_value("no error");
  } catch (const DisagreementError&) {
    end.set_value("disagreement");
  }
}

TEST(ThreadRanksCoroutine, IsResumedAndGetsTheError) {
  test::World{3}.run([](ProcessGroup& world) {
    std::vector<int> data(5000, 1);
    std::promise<std::string> end;
    std::future<std::string> ended = end.get_future();
    add_twice(world, data, end);
    ASSERT_EQ(ended.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    EXPECT_EQ(ended.get(), "disagreement");
    EXPECT_EQ(data, std::vector<int>(5000, 9));
  });
}

}  // namespace
}  // namespace tutti
