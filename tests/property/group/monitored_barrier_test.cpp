#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <tutti/launch.hpp>
#include <tutti/tutti.hpp>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Transport = Config::TransportChoice;

Config config_of(Transport transport) {
  Config config;
  config.transport = transport;
  config.timeout = seconds(60);
  return config;
}

class MonitoredBarrier : public testing::TestWithParam<std::tuple<int, Transport>> {
 protected:
  static int ranks() { return std::get<0>(GetParam()); }
  static Config config() { return config_of(std::get<1>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Sizes, MonitoredBarrier,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 8),
                                          testing::Values(Transport::automatic, Transport::tcp)));

TEST_P(MonitoredBarrier, ReturnsWhenTheLatestHasCalledIt) {
  constexpr int kRounds = 20;
  std::vector<std::atomic<int>> entered(kRounds);
  run_threads(
      ranks(),
      [&](ProcessGroup& world) {
        for (int round = 0; round < kRounds; ++round) {
          std::atomic<int>& here = entered[static_cast<std::size_t>(round)];
          if (world.rank() == round % world.size()) {  // the last to come
            while (here < world.size() - 1) std::this_thread::yield();
          }
          ++here;
          world.monitored_barrier({.wait_all_ranks = round % 2 == 0});
          EXPECT_EQ(here, world.size()) << "rank " << world.rank() << " was let go too early";
        }
      },
      config());
}

TEST_P(MonitoredBarrier, DisturbsNeitherMessagesNorCollectives) {
  run_threads(
      ranks(),
      [](ProcessGroup& world) {
        const int next = (world.rank() + 1) % world.size();
        const int before = (world.rank() + world.size() - 1) % world.size();
        const std::vector<int> mine{world.rank()};
        std::vector<int> theirs{-1};
        std::vector<int> sum{1};
        Work sending = world.isend(mine, next);
        Work adding = world.all_reduce(sum);
        world.monitored_barrier();
        Work receiving = world.irecv(theirs, any_source);
        world.monitored_barrier();
        adding.wait();
        receiving.wait();
        sending.wait();
        EXPECT_EQ(theirs[0], before);
        EXPECT_EQ(sum[0], world.size());
      },
      config());
}

TEST(MonitoredBarrierMisuse, IsToldAtTheCallAndHarmsNothing) {
  run_threads(2, [](ProcessGroup& world) {
    EXPECT_THROW(world.monitored_barrier({.timeout = milliseconds(0)}), InvalidArgument);
    world.monitored_barrier();
  });
}

struct Absent {
  int size;
  std::vector<int> who;
  bool all;
  Transport transport = Transport::automatic;
};
void PrintTo(const Absent& one, std::ostream* out) {
  *out << one.size << " ranks, " << one.who.size() << " absent" << (one.all ? ", all told" : "");
}

class MissingRanks : public testing::TestWithParam<Absent> {};
INSTANTIATE_TEST_SUITE_P(
    Missing, MissingRanks,
    testing::Values(Absent{2, {1}, false}, Absent{2, {1}, true}, Absent{3, {1, 2}, false},
                    Absent{3, {2}, true, Transport::tcp}, Absent{4, {2, 3}, true},
                    Absent{4, {1, 3}, true, Transport::tcp}, Absent{5, {4}, false},
                    Absent{5, {1, 3, 4}, true}, Absent{8, {3, 6}, false}, Absent{8, {3, 6}, true}));

TEST_P(MissingRanks, AreNamedToAllAndTheGroupIsBroken) {
  const Absent& param = GetParam();
  std::atomic<int> entered{0};
  std::atomic<int> errors{0};
  run_threads(
      param.size,
      [&](ProcessGroup& world) {
        const bool here =
            std::find(param.who.begin(), param.who.end(), world.rank()) == param.who.end();
        const int others = param.size - static_cast<int>(param.who.size()) - 1;
        if (!here) {  // comes when the others have given up
          while (world.health().ok()) std::this_thread::yield();
        } else if (world.rank() == 0) {
          while (entered < others) std::this_thread::yield();
        } else {
          ++entered;
        }
        try {
          if (here)
            world.monitored_barrier({.timeout = seconds(1), .wait_all_ranks = param.all});
          else
            world.barrier().wait();
          ADD_FAILURE() << "no error on rank " << world.rank();
        } catch (const TimeoutError& error) {
          ++errors;
          const std::string text = error.what();
          EXPECT_EQ(error.culprit(), param.who.front()) << text;
          for (int rank = 0; rank < param.size; ++rank) {
            const bool absent =
                std::find(param.who.begin(), param.who.end(), rank) != param.who.end();
            const bool named = absent && (param.all || rank == param.who.front());
            const bool found = text.find("rank " + std::to_string(rank) + " on ") != text.npos;
            EXPECT_EQ(found, named) << rank << ": " << text;
          }
          EXPECT_NE(text.find("monitored_barrier"), text.npos) << text;
          EXPECT_NE(text.find("1000 ms"), text.npos) << text;
          if (here && world.rank() != 0) {
            EXPECT_NE(text.find("this rank has called it"), text.npos) << text;
          }
        }
        EXPECT_FALSE(world.health().ok());
      },
      config_of(param.transport));
  EXPECT_EQ(errors, param.size);
}

TEST(MonitoredBarrierTimeout, OfAnotherRankThanZeroNamesRankZero) {
  Config config;
  config.timeout = milliseconds(500);
  run_threads(
      2,
      [](ProcessGroup& world) {
        if (world.rank() == 0) {
          while (world.health().ok()) std::this_thread::yield();
          return;
        }
        try {
          world.monitored_barrier({.timeout = milliseconds(100)});
          ADD_FAILURE() << "no error";
        } catch (const TimeoutError& error) {
          EXPECT_EQ(error.culprit(), 0) << error.what();
        }
      },
      config);
}

TEST(MonitoredBarrierElsewhere, ARankInAnotherOperationIsNamed) {
  std::atomic<bool> elsewhere{false};
  run_threads(2, [&](ProcessGroup& world) {
    std::vector<float> data(4);
    if (world.rank() == 1) {
      Work work = world.all_reduce(data);
      elsewhere = true;
      EXPECT_THROW(work.wait(), TimeoutError);
      return;
    }
    while (!elsewhere) std::this_thread::yield();
    try {
      world.monitored_barrier({.timeout = milliseconds(300)});
      ADD_FAILURE() << "no error";
    } catch (const TimeoutError& error) {
      EXPECT_EQ(error.culprit(), 1) << error.what();
    }
  });
}

}  // namespace
}  // namespace tutti
