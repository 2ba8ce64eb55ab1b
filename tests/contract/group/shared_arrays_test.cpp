#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/sanitized.hpp"
#include "support/thread_worlds.hpp"

// Buffers of ProcessGroup::alloc: other ranks read them where they lie, so they must not be written
// again before all have.
namespace tutti {
namespace {

using test::Way;
using Ints = std::vector<std::int32_t>;

std::int32_t value(int from, int to, std::size_t i, int round) {
  return static_cast<std::int32_t>(i % 1000) + 1000 * (from + 10 * to + 100 * round);
}

/// On several hosts inputs are not shared.
std::vector<test::World> worlds_of_arrays() {
  std::vector<test::World> all = test::worlds({1, 2, 3, 5, 8}, {Way::shm});
  all.push_back({.size = 3, .way = Way::mixed});
  return all;
}

class SharedArrays : public test::OnWorlds {
 protected:
  /// With a CPU for each rank, as far as they know: with fewer, few inputs are read in place.
  static void run(const test::World::Body& body) {
    OnWorlds::run(body, [](Config& config) { config.cpus = GetParam().size; });
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, SharedArrays, testing::ValuesIn(worlds_of_arrays()),
                         test::world_name);

/// Blocks of which some are copied through a line or the staging, and others lie where they are.
constexpr std::array<std::size_t, 4> kBlocks{1, 12'000, 33'333, 100'000};

/// Runs `body(count, lends, round)` for each number of elements of a block, and each set of ranks
/// whose inputs are shared: all, or each second one.
template <class Body>
void for_each_call(const ProcessGroup& world, const Body& body) {
  int round = 0;
  for (const std::size_t count : kBlocks) {
    for (const int some : {1, 2}) {
      const bool lends = (world.rank() + round) % some == 0;
      body(count, lends, ++round);
    }
  }
}

/// An input of that many elements, shared or not.
class Input {
 public:
  Input(const ProcessGroup& world, std::size_t count, bool lends)
      : shared_(world.alloc<std::int32_t>(lends ? count : 0)), own_(lends ? 0 : count) {}
  [[nodiscard]] std::span<std::int32_t> all() {
    return own_.empty() ? std::span<std::int32_t>(shared_) : std::span<std::int32_t>(own_);
  }
  void spoil() { std::ranges::fill(all(), 0x55555555); }

 private:
  SharedArray<std::int32_t> shared_;
  Ints own_;
};

void expect_block(std::span<const std::int32_t> block, int from, int to, int round) {
  for (std::size_t i = 0; i < block.size(); ++i)
    ASSERT_EQ(block[i], value(from, to, i, round)) << "element " << i << " from rank " << from;
}

TEST_P(SharedArrays, AllToAll) {
  run([](ProcessGroup& world) {
    for_each_call(world, [&](std::size_t count, bool lends, int round) {
      const auto size = static_cast<std::size_t>(world.size());
      Input input(world, count * size, lends);
      for (int to = 0; to < world.size(); ++to) {
        for (std::size_t i = 0; i < count; ++i)
          input.all()[static_cast<std::size_t>(to) * count + i] = value(world.rank(), to, i, round);
      }
      Ints output(count * size);
      world.all_to_all(output, input.all()).wait();
      input.spoil();
      for (int from = 0; from < world.size(); ++from) {
        expect_block(std::span(output).subspan(static_cast<std::size_t>(from) * count, count), from,
                     world.rank(), round);
      }
    });
  });
}

TEST_P(SharedArrays, AllGather) {
  run([](ProcessGroup& world) {
    for_each_call(world, [&](std::size_t count, bool lends, int round) {
      Input input(world, count, lends);
      for (std::size_t i = 0; i < count; ++i) input.all()[i] = value(world.rank(), 0, i, round);
      Ints output(count * static_cast<std::size_t>(world.size()));
      world.all_gather(output, input.all()).wait();
      input.spoil();
      for (int from = 0; from < world.size(); ++from) {
        expect_block(std::span(output).subspan(static_cast<std::size_t>(from) * count, count), from,
                     0, round);
      }
    });
  });
}

TEST_P(SharedArrays, AllGatherOfBlocksThatDiffer) {
  run([](ProcessGroup& world) {
    for_each_call(world, [&](std::size_t count, bool lends, int round) {
      std::vector<std::size_t> counts;
      for (int rank = 0; rank < world.size(); ++rank)
        counts.push_back(count * static_cast<std::size_t>(rank + 1) / 2);
      const std::size_t mine = counts[static_cast<std::size_t>(world.rank())];
      Input input(world, mine, lends && mine > 0);
      for (std::size_t i = 0; i < mine; ++i) input.all()[i] = value(world.rank(), 0, i, round);
      Ints output(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
      world.all_gather(output, input.all(), {.output_counts = counts}).wait();
      input.spoil();
      std::size_t at = 0;
      for (int from = 0; from < world.size(); ++from) {
        const std::size_t n = counts[static_cast<std::size_t>(from)];
        expect_block(std::span(output).subspan(at, n), from, 0, round);
        at += n;
      }
    });
  });
}

TEST_P(SharedArrays, AllGatherInPlace) {
  run([](ProcessGroup& world) {
    for (int round = 0; round < 4; ++round) {
      constexpr std::size_t kCount = 50'000;
      auto both = world.alloc<std::int32_t>(kCount * static_cast<std::size_t>(world.size()));
      const auto block = [&](int rank) {
        return std::span<std::int32_t>(both).subspan(static_cast<std::size_t>(rank) * kCount,
                                                     kCount);
      };
      for (std::size_t i = 0; i < kCount; ++i)
        block(world.rank())[i] = value(world.rank(), 0, i, round);
      world.all_gather(both, block(world.rank())).wait();
      for (int from = 0; from < world.size(); ++from) expect_block(block(from), from, 0, round);
    }
  });
}

TEST_P(SharedArrays, Broadcast) {
  run([](ProcessGroup& world) {
    for_each_call(world, [&](std::size_t count, bool lends, int round) {
      const int root = round % world.size();
      Input buffer(world, count, lends);
      if (world.rank() == root) {
        for (std::size_t i = 0; i < count; ++i) buffer.all()[i] = value(root, 0, i, round);
      }
      auto all = buffer.all();
      world.broadcast(all, {.root = root}).wait();
      if (world.rank() != root) expect_block(all, root, 0, round);
      buffer.spoil();
    });
  });
}

TEST_P(SharedArrays, GatherAndScatter) {
  run([](ProcessGroup& world) {
    for_each_call(world, [&](std::size_t count, bool lends, int round) {
      const int root = round % world.size();
      const std::size_t all = count * static_cast<std::size_t>(world.size());
      Input input(world, count, lends);
      for (std::size_t i = 0; i < count; ++i) input.all()[i] = value(world.rank(), 0, i, round);
      Input gathered(world, all, lends);
      auto output = gathered.all();
      world.gather(output, input.all(), {.root = root}).wait();
      input.spoil();
      for (int from = 0; world.rank() == root && from < world.size(); ++from)
        expect_block(output.subspan(static_cast<std::size_t>(from) * count, count), from, 0, round);
      Ints block(count);
      world.scatter(block, output, {.root = root}).wait();
      gathered.spoil();
      expect_block(block, world.rank(), 0, round);
    });
  });
}

/// The root's Work is done only when all have read, and ends with the group if one never does.
TEST(SharedArraysOfTwo, AnInputIsReadBeforeItsWorkIsDone) {
  test::World{.size = 2, .way = Way::shm}.run([](ProcessGroup& world) {
    auto data = world.alloc<std::int32_t>(1'000'000);
    if (world.rank() == 0) {
      std::ranges::fill(data, 7);
      Work work = world.broadcast(data);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_FALSE(work.done());
      world.barrier().wait();  // it may be called meanwhile
      work.wait();
      std::ranges::fill(data, 8);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world.broadcast(data).wait();
      EXPECT_EQ(std::ranges::count(data, 7), std::ssize(data));
      world.barrier().wait();
    }
  });
}

TEST(SharedArraysOfTwo, ALateReaderIsNamed) {
  test::World{.size = 2, .way = Way::shm}.run([](ProcessGroup& world) {
    auto data = world.alloc<std::int32_t>(1'000'000);
    if (world.rank() == 1) return test::wait_until_broken(world);
    try {
      world.broadcast(data, {.timeout = std::chrono::milliseconds(200)}).wait();
      ADD_FAILURE() << "it is done although rank 1 has read nothing";
    } catch (const TimeoutError& error) {
      EXPECT_EQ(error.status().culprit(), 1) << error.what();
    }
  });
}

TEST(SharedArraysOfTwo, ACallThatWritesAnInputWaits) {
  test::World{.size = 2, .way = Way::shm}.run([](ProcessGroup& world) {
    auto data = world.alloc<std::int32_t>(100'000);
    std::ranges::fill(data, world.rank());
    Ints output(200'000);
    Work gathers = world.all_gather(output, data);
    world.all_reduce(data).wait();
    gathers.wait();
    EXPECT_EQ(output.front(), 0);
    EXPECT_EQ(output.back(), 1);
    EXPECT_EQ(std::ranges::count(data, 1), std::ssize(data));
  });
}

TEST(SharedArraysOfTwo, MemoryIsZeroAndUsedAgain) {
  test::World{.size = 2, .way = Way::shm}.run([](ProcessGroup& world) {
    const auto* const first = world.alloc<char>(10'000'000).data();
    auto kept = world.alloc<char>(1);
    for (int i = 0; i < 20; ++i) {
      auto again = world.alloc<char>(10'000'000);
      EXPECT_EQ(std::ranges::count(again, 0), std::ssize(again));
      std::ranges::fill(again, 'x');
    }
    kept = SharedArray<char>();
    EXPECT_EQ(static_cast<const void*>(world.alloc<char>(20'000'000).data()),
              static_cast<const void*>(first));
  });
}

TEST(SharedArraysOfTwo, WhatIsTooLargeIsTold) {
  test::World{.size = 1, .way = Way::shm}.run([](ProcessGroup& world) {
    EXPECT_THROW((void)world.alloc<double>(~std::size_t{0} / 2), std::length_error);
    if (!test::kSanitized) {  // which end a program that wants so much
      EXPECT_THROW((void)world.alloc<char>(std::size_t{1} << 60), BackendError);
    }
    EXPECT_TRUE(world.alloc<double>(0).empty());
    world.barrier().wait();
  });
}

TEST(SharedArraysOfTwo, MayOutliveTheWorld) {
  std::array<SharedArray<int>, 2> kept;
  test::World{.size = 2, .way = Way::shm}.run([&](ProcessGroup& world) {
    auto data = world.alloc<int>(100'000);
    std::ranges::fill(data, world.rank() + 1);
    kept[static_cast<std::size_t>(world.rank())] = std::move(data);
  });
  for (int rank = 0; rank < 2; ++rank) {
    auto& data = kept[static_cast<std::size_t>(rank)];
    EXPECT_EQ(std::ranges::count(data, rank + 1), std::ssize(data));
  }
}

}  // namespace
}  // namespace tutti
