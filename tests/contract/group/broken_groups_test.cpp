#include <gmock/gmock.h>

#include <numeric>

#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Many groups break at once, on one host and between hosts: each tells its own reason, and the
// groups that live go on, whether or not the handles of the broken ones are kept.
namespace tutti {
namespace {

/// Far beyond the time limit of the test: an error that comes at all came because of the rank.
void wait_for_ever(Config& config) { config.timeout = std::chrono::minutes(60); }

constexpr int kSize = 4;
constexpr int kBroken = 64;
constexpr int kRepeats = 3;

std::string reason_of(int round, int group) {
  return "the reason of group " + std::to_string(group) + " in round " + std::to_string(round);
}

void expect_aborted(ProcessGroup& group, const std::string& reason) {
  const auto error = test::told<Error>([&] { group.barrier().wait(); });
  EXPECT_EQ(error.code, Errc::aborted) << error.text;
  EXPECT_THAT(error.text, testing::EndsWith(": " + reason));
}

class BrokenGroups : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Ways, BrokenGroups,
                         testing::ValuesIn(test::worlds({kSize}, {test::Way::shm, test::Way::tcp})),
                         test::world_name);

TEST_P(BrokenGroups, EachTellsItsOwnReason) {
  run(
      [](ProcessGroup& world) {
        std::vector<ProcessGroup> kept;
        for (int round = 0; round < kRepeats; ++round) {
          std::vector<ProcessGroup> groups;
          for (int i = 0; i < kBroken; ++i) groups.push_back(world.new_group({0, 1, 2, 3}));
          world.barrier().wait();
          // Each rank breaks a part of them, and is told of the others.
          for (int i = 0; i < kBroken; ++i) {
            if (i % kSize == world.rank()) groups[i].abort(reason_of(round, i));
          }
          for (int i = 0; i < kBroken; ++i) expect_aborted(groups[i], reason_of(round, i));
          if (world.rank() % 2 == 0)
            for (ProcessGroup& group : groups) kept.push_back(std::move(group));
          groups.clear();
          std::vector<int> ones(64 * 1024, 1);
          world.all_reduce(ones).wait();
          EXPECT_EQ(ones.front(), kSize);
          EXPECT_EQ(ones.back(), kSize);
        }
        world.barrier().wait();
      },
      wait_for_ever);
}

// A rank destroys its end of a group and lives on: what it had given arrives, and whoever needs
// more of it hears so long before the timeout.

constexpr int kGone = 1;  // the rank that destroys the group

/// Runs a call that must fail because that rank has destroyed the group.
void expect_gone(const std::function<void()>& call) {
  const auto error = test::told<NetworkError>(call);
  EXPECT_EQ(error.code, Errc::peer_left) << error.text;
  EXPECT_EQ(error.culprit, kGone) << error.text;
}

/// The two that are left wait for each other, in the world: what comes then may break the group for
/// both.
void meet(ProcessGroup& group) {
  const int other = 2 - group.rank();
  std::vector<int> values(1, group.rank());
  Work send = group.isend(values, other, {.tag = 9});
  std::vector<int> got(1);
  group.recv(got, other, {.tag = 9});
  send.wait();
  EXPECT_EQ(got.front(), other);
}

class DestroyedGroup : public test::OnWorlds {
 protected:
  using Group = std::function<void(ProcessGroup& group)>;
  /// `stay`: what the ranks of a group of three do with it; `go`: what rank 1 does before it
  /// destroys it. All go on in the world afterwards.
  static void run(
      const std::function<void(ProcessGroup& group, ProcessGroup& world)>& stay,
      const Group& go = [](ProcessGroup&) {}) {
    const auto rank = [&](ProcessGroup& world) {
      ProcessGroup group = world.new_group({0, 1, 2});
      if (world.rank() == kGone)
        go(group);
      else
        stay(group, world);
      group = {};
      world.barrier().wait();
      EXPECT_TRUE(world.health().ok()) << world.health().message();
    };
    OnWorlds::run(rank, wait_for_ever);
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, DestroyedGroup,
                         testing::ValuesIn(test::worlds({3}, {test::Way::shm, test::Way::tcp})),
                         test::world_name);

TEST_P(DestroyedGroup, AnOperationThatNeedsItEndsSoon) {
  run([](ProcessGroup& group, ProcessGroup&) {
    std::vector<int> values(100, group.rank());
    expect_gone([&] { group.all_reduce(values).wait(); });
    expect_gone([&] { group.barrier().wait(); });  // the group is broken, with the same cause
  });
}

TEST_P(DestroyedGroup, ARankThatNeedsNothingOfItGetsNoError) {
  run([](ProcessGroup& group, ProcessGroup&) {
    meet(group);
    EXPECT_TRUE(group.health().ok()) << group.health().message();
  });
}

TEST_P(DestroyedGroup, ARecvFromItEndsSoonButGetsWhatItSent) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{10'000}}) {
    run(
        [&](ProcessGroup& group, ProcessGroup& world) {
          std::vector<int> values(count);
          EXPECT_EQ(group.recv(values, kGone), kGone);
          EXPECT_EQ(values.back(), group.rank());
          meet(world);
          expect_gone([&] { group.recv(values, kGone); });
        },
        [&](ProcessGroup& group) {
          for (const int to : {0, 2}) {
            const std::vector<int> values(count, to);
            group.send(values, to);
          }
        });
  }
}

TEST_P(DestroyedGroup, ALargeSendToItEndsSoon) {
  run([](ProcessGroup& group, ProcessGroup&) {
    const std::vector<int> values(1'000'000);
    expect_gone([&] { group.send(values, kGone); });
  });
}

}  // namespace
}  // namespace tutti
