#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Many groups break at once, on one host and between hosts: each tells its own reason, and the
// groups that live go on, whether or not the handles of the broken ones are kept.
namespace tutti {
namespace {

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
          for (int i = 0; i < kBroken; ++i) groups.push_back(*world.new_group({0, 1, 2, 3}));
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
      [](Config& config) {
        config.timeout = std::chrono::minutes(60);
      });  // beyond that of the test
}

}  // namespace
}  // namespace tutti
