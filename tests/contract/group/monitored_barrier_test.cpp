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

#include "support/rotation.hpp"

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
                         testing::Combine(testing::ValuesIn(test::world_sizes()),
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

/// In torch's words.
std::string torch_names(const std::vector<int>& who, bool all) {
  if (!all) return "Rank " + std::to_string(who.front());
  std::string text = "Ranks ";
  for (const int rank : who) text += (rank == who.front() ? "" : ", ") + std::to_string(rank);
  return text;
}
std::string reached(int rank) {
  return "Rank " + std::to_string(rank) +
         " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
         "from rank 0. Please check rank 0 logs for faulty rank. ";
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
          const std::string told = "[Rank 0]: " + torch_names(param.who, param.all) +
                                   " failed to pass monitoredBarrier in 1000 ms: rank ";
          const std::string words = here && world.rank() != 0 ? reached(world.rank()) + told : told;
          EXPECT_EQ(text.substr(0, words.size()), words);
          EXPECT_NE(text.find(param.who.size() > 1 && param.all
                                  ? " have not called monitored_barrier in group 'world' of "
                                  : " has not called monitored_barrier in group 'world' of "),
                    text.npos)
              << text;
          EXPECT_NE(text.find(param.who.size() > 1 && param.all ? "; see where those ranks are"
                                                                : "; see where that rank is"),
                    text.npos)
              << text;
          EXPECT_EQ(text.find(" (others may be missing, too). The group is broken.") != text.npos,
                    !param.all)
              << text;
        }
        EXPECT_FALSE(world.health().ok());
      },
      config_of(param.transport));
  EXPECT_EQ(errors, param.size);
}

// The group's timeout is a minute, and no part of it.
TEST(MonitoredBarrierTimeout, OfAnotherRankThanZeroNamesRankZero) {
  run_threads(
      2,
      [](ProcessGroup& world) {
        if (world.rank() == 0) {
          while (world.health().ok()) std::this_thread::yield();
          try {
            world.monitored_barrier();
            ADD_FAILURE() << "no error";
          } catch (const TimeoutError& error) {
            const std::string text = error.what();
            EXPECT_EQ(text.find("monitored_barrier in group '"), 0U) << text;
          }
          return;
        }
        try {
          world.monitored_barrier({.timeout = milliseconds(100)});
          ADD_FAILURE() << "no error";
        } catch (const TimeoutError& error) {
          const std::string text = error.what();
          EXPECT_EQ(error.culprit(), 0) << text;
          EXPECT_EQ(text.substr(0, reached(1).size()), reached(1));
        }
      },
      config_of(Transport::automatic));
}

// Rank 1 waits longer than the timeout: it cannot know when rank 0 has called.
TEST(MonitoredBarrierTimeout, OfALaterRankZeroNamesWhoIsMissing) {
  Config config;
  config.timeout = seconds(2);
  std::atomic<bool> entered{false};
  run_threads(
      3,
      [&](ProcessGroup& world) {
        if (world.rank() == 2) {
          while (world.health().ok()) std::this_thread::yield();
          return;
        }
        if (world.rank() == 0) {
          while (!entered) std::this_thread::yield();
          std::this_thread::sleep_for(milliseconds(200));
        }
        entered = true;
        try {
          world.monitored_barrier();
          ADD_FAILURE() << "no error";
        } catch (const TimeoutError& error) {
          EXPECT_EQ(error.culprit(), 2) << error.what();
        }
      },
      config);
}

TEST(MonitoredBarrierTimeout, OfManyMissingRanksTellsAllNumbersAndSomePlaces) {
  constexpr int kRanks = 8;
  run_threads(
      kRanks,
      [](ProcessGroup& world) {
        auto part = world.new_group({7, 6, 5, 4, 3, 2, 1});
        if (!part) return;
        if (part->rank() != 0) {
          while (part->health().ok()) std::this_thread::yield();
          return;
        }
        try {
          part->monitored_barrier({.timeout = milliseconds(100), .wait_all_ranks = true});
          ADD_FAILURE() << "no error";
        } catch (const TimeoutError& error) {
          const std::string text = error.what();
          const std::string words =
              "[Rank 0]: Ranks 1, 2, 3, 4, 5, 6 failed to pass monitoredBarrier in 100 ms: "
              "rank 1 (global rank 6) on ";
          EXPECT_EQ(text.substr(0, words.size()), words);
          EXPECT_NE(text.find("rank 4 (global rank 3) on "), text.npos) << text;
          EXPECT_EQ(text.find("rank 5 ("), text.npos) << text;
          EXPECT_NE(text.find(" and 2 more have not called "), text.npos) << text;
        }
      },
      config_of(Transport::automatic));
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

TEST(MonitoredBarrierElsewhere, AGroupThatBrokeBeforeSaysWhy) {
  std::atomic<int> ready{0};
  run_threads(2, [&](ProcessGroup& world) {
    world.barrier().wait();  // both have made the group: who makes it later hears in its next call
    ++ready;
    while (ready < 2) std::this_thread::yield();
    if (world.rank() == 1) world.abort("no more");
    while (world.health().ok()) std::this_thread::yield();
    try {
      world.monitored_barrier();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), Errc::aborted) << text;
      EXPECT_NE(text.find("no more"), text.npos) << text;
      const std::string words =
          world.rank() == 0 ? "monitored_barrier in group '" : "Rank 1 successfully reached";
      EXPECT_EQ(text.substr(0, words.size()), words);
    }
  });
}

}  // namespace
}  // namespace tutti
