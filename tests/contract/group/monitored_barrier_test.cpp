#include <gmock/gmock.h>

#include "support/thread_worlds.hpp"
#include "support/told.hpp"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::after;
using test::before;
using test::Told;
using test::told;
using test::wait_for;
using test::wait_until_broken;
using test::Way;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class MonitoredBarrier : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, MonitoredBarrier, testing::ValuesIn(test::plain_worlds()),
                         test::world_name);

TEST_P(MonitoredBarrier, ReturnsWhenTheLatestHasCalledIt) {
  constexpr int kRounds = 20;
  std::vector<std::atomic<int>> entered(kRounds);
  run([&](ProcessGroup& world) {
    for (int round = 0; round < kRounds; ++round) {
      std::atomic<int>& here = entered[static_cast<std::size_t>(round)];
      if (world.rank() == round % world.size()) {  // the last to come
        while (here < world.size() - 1) std::this_thread::yield();
      }
      ++here;
      world.monitored_barrier({.wait_all_ranks = round % 2 == 0});
      EXPECT_EQ(here, world.size()) << "rank " << world.rank() << " was let go too early";
    }
  });
}

TEST_P(MonitoredBarrier, DisturbsNeitherMessagesNorCollectives) {
  run([](ProcessGroup& world) {
    const std::vector<int> mine{world.rank()};
    std::vector<int> theirs{-1};
    std::vector<int> sum{1};
    Work sending = world.isend(mine, after(world));
    Work adding = world.all_reduce(sum);
    world.monitored_barrier();
    Work receiving = world.irecv(theirs, any_source);
    world.monitored_barrier();
    adding.wait();
    receiving.wait();
    sending.wait();
    EXPECT_EQ(theirs[0], before(world));
    EXPECT_EQ(sum[0], world.size());
  });
}

TEST(MonitoredBarrierMisuse, IsToldAtTheCallAndHarmsNothing) {
  test::World{2}.run([](ProcessGroup& world) {
    EXPECT_THROW(world.monitored_barrier({.timeout = milliseconds(0)}), InvalidArgument);
    world.monitored_barrier();
  });
}

struct Absent {
  int size;
  std::vector<int> who;
  bool all;
  Way way = Way::shm;

  [[nodiscard]] bool has(int rank) const {
    return std::find(who.begin(), who.end(), rank) != who.end();
  }
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
INSTANTIATE_TEST_SUITE_P(Missing, MissingRanks,
                         testing::Values(Absent{2, {1}, false}, Absent{2, {1}, true},
                                         Absent{3, {1, 2}, false}, Absent{3, {2}, true, Way::tcp},
                                         Absent{4, {2, 3}, true}, Absent{4, {1, 3}, true, Way::tcp},
                                         Absent{5, {4}, false}, Absent{5, {1, 3, 4}, true},
                                         Absent{8, {3, 6}, false}, Absent{8, {3, 6}, true}));

TEST_P(MissingRanks, AreNamedToAllAndTheGroupIsBroken) {
  const Absent& param = GetParam();
  const bool several = param.who.size() > 1 && param.all;
  const int others = param.size - static_cast<int>(param.who.size()) - 1;
  std::atomic<int> entered{0};
  test::World{param.size, param.way}.run([&](ProcessGroup& world) {
    const bool here = !param.has(world.rank());
    if (!here)  // comes when the others have given up
      wait_until_broken(world);
    else if (world.rank() == 0)
      wait_for([&] { return entered == others; });
    else
      ++entered;
    const Told error = told<TimeoutError>([&] {
      if (here)
        world.monitored_barrier({.timeout = seconds(1), .wait_all_ranks = param.all});
      else
        world.barrier().wait();
    });
    const std::string& text = error.text;
    EXPECT_EQ(error.culprit, param.who.front()) << text;
    for (int rank = 0; rank < param.size; ++rank) {
      const bool named = param.has(rank) && (param.all || rank == param.who.front());
      const bool found = text.find("rank " + std::to_string(rank) + " on ") != text.npos;
      EXPECT_EQ(found, named) << rank << ": " << text;
    }
    EXPECT_THAT(text, StartsWith((here && world.rank() != 0 ? reached(world.rank()) : "") +
                                 "[Rank 0]: " + torch_names(param.who, param.all) +
                                 " failed to pass monitoredBarrier in 1000 ms: rank "));
    EXPECT_THAT(text,
                HasSubstr(several ? " have not called monitored_barrier in group 'world' of "
                                  : " has not called monitored_barrier in group 'world' of "));
    EXPECT_THAT(text,
                HasSubstr(several ? "; see where those ranks are" : "; see where that rank is"));
    EXPECT_EQ(text.find(" (others may be missing, too). The group is broken.") != text.npos,
              !param.all)
        << text;
    EXPECT_FALSE(world.health().ok());
  });
}

// The group's timeout is a minute, and no part of it.
TEST(MonitoredBarrierTimeout, OfAnotherRankThanZeroNamesRankZero) {
  test::World{2}.run([](ProcessGroup& world) {
    if (world.rank() == 0) {
      wait_until_broken(world);
      const Told error = told<TimeoutError>([&] { world.monitored_barrier(); });
      EXPECT_THAT(error.text, StartsWith("monitored_barrier in group '"));
      return;
    }
    const Told error =
        told<TimeoutError>([&] { world.monitored_barrier({.timeout = milliseconds(100)}); });
    EXPECT_EQ(error.culprit, 0) << error.text;
    EXPECT_THAT(error.text, StartsWith(reached(1)));
  });
}

// Rank 1 waits longer than the timeout: it cannot know when rank 0 has called.
TEST(MonitoredBarrierTimeout, OfALaterRankZeroNamesWhoIsMissing) {
  std::atomic<bool> entered{false};
  const auto rank = [&](ProcessGroup& world) {
    if (world.rank() == 2) return wait_until_broken(world);
    if (world.rank() == 0) {
      wait_for([&] { return entered.load(); });
      std::this_thread::sleep_for(milliseconds(200));
    }
    entered = true;
    const Told error = told<TimeoutError>([&] { world.monitored_barrier(); });
    EXPECT_EQ(error.culprit, 2) << error.text;
  };
  test::World{3}.run(rank, [](Config& config) { config.timeout = seconds(2); });
}

TEST(MonitoredBarrierTimeout, OfManyMissingRanksTellsAllNumbersAndSomePlaces) {
  test::World{8}.run([](ProcessGroup& world) {
    auto part = world.new_group({7, 6, 5, 4, 3, 2, 1});
    if (!part) return;
    if (part.rank() != 0) return wait_until_broken(part);
    const Told error = told<TimeoutError>(
        [&] { part.monitored_barrier({.timeout = milliseconds(100), .wait_all_ranks = true}); });
    EXPECT_THAT(
        error.text,
        StartsWith("[Rank 0]: Ranks 1, 2, 3, 4, 5, 6 failed to pass monitoredBarrier in 100 "
                   "ms: rank 1 (global rank 6) on "));
    EXPECT_THAT(error.text, HasSubstr("rank 4 (global rank 3) on "));
    EXPECT_THAT(error.text, Not(HasSubstr("rank 5 (")));
    EXPECT_THAT(error.text, HasSubstr(" and 2 more have not called "));
  });
}

TEST(MonitoredBarrierElsewhere, ARankInAnotherOperationIsNamed) {
  std::atomic<bool> elsewhere{false};
  test::World{2}.run([&](ProcessGroup& world) {
    std::vector<float> data(4);
    if (world.rank() == 1) {
      Work work = world.all_reduce(data);
      elsewhere = true;
      EXPECT_THROW(work.wait(), TimeoutError);
      return;
    }
    wait_for([&] { return elsewhere.load(); });
    const Told error =
        told<TimeoutError>([&] { world.monitored_barrier({.timeout = milliseconds(300)}); });
    EXPECT_EQ(error.culprit, 1) << error.text;
  });
}

TEST(MonitoredBarrierElsewhere, AGroupThatBrokeBeforeSaysWhy) {
  std::atomic<int> ready{0};
  test::World{2}.run([&](ProcessGroup& world) {
    world.barrier()
        .wait();  // both have made the group: a rank that makes it later hears of it there
    ++ready;
    wait_for([&] { return ready == 2; });
    if (world.rank() == 1) world.abort("no more");
    wait_until_broken(world);
    const Told error = told<Error>([&] { world.monitored_barrier(); });
    EXPECT_EQ(error.code, Errc::aborted) << error.text;
    EXPECT_THAT(error.text, HasSubstr("no more"));
    EXPECT_THAT(error.text, StartsWith(world.rank() == 0 ? "monitored_barrier in group '"
                                                         : "Rank 1 successfully reached"));
  });
}

}  // namespace
}  // namespace tutti
