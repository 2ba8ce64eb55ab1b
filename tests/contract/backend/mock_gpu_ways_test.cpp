#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#ifdef TUTTI_TEST_NCCL
#include "mock_choice_ranks.hpp"
#endif
#include "mock_staged_ranks.hpp"

// Tests that hold whichever way tensors of GPUs go between ranks: by the host as a whole, in parts,
// from GPU to GPU, by NCCL, or as each group chooses. Over mocks of CUDA's driver and of NCCL,
// which tell races.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct GpuWay {
  using Body = std::function<void(ProcessGroup& world, MockMachine& machine)>;
  std::string name;
  std::size_t count = 4;  ///< elements of a call that shows what is special
  /// Runs so many ranks. True: what the mocks have seen is to be clean, else without misuse.
  std::function<void(int ranks, bool clean, const Body& body)> run;
};

void PrintTo(const GpuWay& way, std::ostream* out) { *out << way.name; }

void expect_seen(const MockMachine& machine, bool clean) {
  if (clean) return expect_clean(machine);
  EXPECT_EQ(machine.misuses(), "");
}

GpuWay staged_way(std::string name, std::size_t count, const staged::DirectOptions& direct) {
  return {std::move(name), count, [direct](int ranks, bool clean, const GpuWay::Body& body) {
            MockGpuWorld mock(ranks);
            run_mock_staged(mock, {.direct = direct},
                            [&](ProcessGroup& world) { body(world, mock.machine); });
            expect_seen(mock.machine, clean);
          }};
}

/// From GPU to GPU, and in parts.
std::vector<GpuWay> ways_in_parts() {
  return {staged_way("Direct", 4, small_parts()), staged_way("Parts", 900, no_kernels())};
}

/// Our own engine.
std::vector<GpuWay> own_ways() {
  std::vector<GpuWay> ways = ways_in_parts();
  ways.push_back(staged_way("Staged", 4, {}));
  return ways;
}

/// Where a call that has begun may end during a capture.
std::vector<GpuWay> ways_of_one_backend() {
  std::vector<GpuWay> ways = own_ways();
#ifdef TUTTI_TEST_NCCL
  ways.push_back({"Nccl", 4, [](int ranks, bool clean, const GpuWay::Body& body) {
                    MockNcclWorld mock(ranks);
                    run_mock_nccl(mock, [&](ProcessGroup& world) { body(world, mock.machine); });
                    expect_seen(mock.machine, clean);
                  }});
#endif
  return ways;
}

std::vector<GpuWay> and_choice(std::vector<GpuWay> ways) {
#ifdef TUTTI_TEST_NCCL
  ways.push_back({"Choice", 4, [](int ranks, bool clean, const GpuWay::Body& body) {
                    MockNcclWorld mock(ranks);
                    std::vector<int> gpus(static_cast<std::size_t>(ranks));
                    std::iota(gpus.begin(), gpus.end(), 0);
                    run_mock_choice(mock, gpus,
                                    [&](ProcessGroup& world) { body(world, mock.machine); });
                    expect_seen(mock.machine, clean);
                  }});
#endif
  return ways;
}

std::string name_of_way(const testing::TestParamInfo<GpuWay>& one) { return one.param.name; }

class MockGpuWays : public testing::TestWithParam<GpuWay> {
 protected:
  static void run(int ranks, const GpuWay::Body& body) { GetParam().run(ranks, true, body); }
};
class MockWaysOfOneBackend : public MockGpuWays {};
class MockOwnWays : public MockGpuWays {};
class MockLateRank : public MockGpuWays {};
class MockWaysInParts : public MockGpuWays {};

INSTANTIATE_TEST_SUITE_P(Of, MockGpuWays, testing::ValuesIn(and_choice(ways_of_one_backend())),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockWaysOfOneBackend, testing::ValuesIn(ways_of_one_backend()),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockOwnWays, testing::ValuesIn(own_ways()), name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockLateRank, testing::ValuesIn(and_choice(ways_in_parts())),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockWaysInParts, testing::ValuesIn(ways_in_parts()), name_of_way);

constexpr std::size_t kCounts[] = {4, 900};  // one part, and several

// ---- Streams

TEST_P(MockOwnWays, CollectivesKeepTheirOrderThoughStreamsDoNot) {
  run(3, [](ProcessGroup& world, MockMachine& machine) {
    for (const std::size_t count : kCounts) {
      for (int late = 0; late < 3; ++late) {
        SCOPED_TRACE(std::to_string(count) + " elements, late is rank " + std::to_string(late));
        CallersStream slow(machine, world.rank());
        CallersStream quick(machine, world.rank());
        std::vector<float> first(count, 1);
        std::vector<double> second(count + 3, 1);
        std::vector<int> third(5, 1);
        std::vector<float> all(3 * count, 0);
        std::vector<float> own(count, static_cast<float>(world.rank()));
        slow.hold(world.rank() == late);
        Work one = reduce_on(world, on_gpu(first), slow.handle);
        Work two = reduce_on(world, on_gpu(second), quick.handle);
        Work three = world.all_reduce(third);  // of the CPU
        Work four = world.all_gather(on_gpu(all), on_gpu(own));
        Work five = world.barrier();
        if (world.rank() == late) {
          EXPECT_FALSE(two.wait_for(5ms)) << "one before it waits";
          EXPECT_FALSE(three.wait_for(1ms));
          EXPECT_FALSE(five.done());
        }
        slow.hold(false);
        two.wait();
        finish(std::move(four));
        five.wait();
        three.wait();
        finish(std::move(two));
        finish(std::move(one));
        EXPECT_EQ(first, std::vector<float>(count, 3));
        EXPECT_EQ(second, std::vector<double>(count + 3, 3));
        EXPECT_EQ(third, std::vector<int>(5, 3));
        EXPECT_EQ(all[0], 0);
        EXPECT_EQ(all[2 * count - 1], 1);
        EXPECT_EQ(all[3 * count - 1], 2);
      }
    }
  });
}

TEST_P(MockOwnWays, AnOperationFollowsTheCallersStreamAndWaitOrdersIt) {
  run(2, [](ProcessGroup& world, MockMachine& machine) {
    CallersStream stream(machine, world.rank());
    for (const std::size_t count : kCounts) {
      std::vector<float> source(count, static_cast<float>(world.rank() + 1));
      std::vector<float> values(count, 0);
      std::vector<float> result(count, 0);
      for (int i = 0; i < 3; ++i) {  // before the ranks agree, and after it
        stream.hold(true);
        stream.copy(values, source);  // not done yet when the operation is called
        Work work = reduce_on(world, on_gpu(values), stream.handle);
        EXPECT_FALSE(work.wait_for(5ms)) << "its input is not there";
        stream.hold(false);
        work.wait();
        stream.copy(result, values);  // behind it in the stream
        finish(reduce_on(world, on_gpu(source), stream.handle));
        EXPECT_EQ(result, std::vector<float>(count, 3.0F * static_cast<float>(1 << i)));
      }
    }
  });
}

TEST_P(MockWaysOfOneBackend, AWaitDuringACaptureForACallBeforeItIsTheHosts) {
  run(2, [](ProcessGroup& world, MockMachine& machine) {
    CallersStream stream(machine, world.rank());
    std::vector<float> values(8, 1);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    const Capture capture(stream);
    work.wait();
    EXPECT_EQ(values, std::vector<float>(8, 2)) << "the stream could not be told to wait for it";
  });
}

TEST_P(MockGpuWays, ACaptureOfAnotherStreamIsNotDisturbed) {
  run(1, [](ProcessGroup& world, MockMachine& machine) {
    CallersStream stream(machine, 0);
    CallersStream other(machine, 0);
    std::vector<float> values(8, 1);
    stream.hold(true);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    const Capture capture(other);
    EXPECT_FALSE(work.wait_for(5ms));
    std::vector<float> more(8, 1);
    Work second = reduce_on(world, on_gpu(more), stream.handle);
    stream.hold(false);
    finish(std::move(work));
    finish(std::move(second));
  });
}

// ---- Calls that do not fit, and failures

TEST_P(MockLateRank, IsNamedAndBlocksNoStream) {
  for (const bool known : {false, true}) {
    std::vector<std::vector<float>> values(3, std::vector<float>(GetParam().count, 1));
    run(3, [&](ProcessGroup& world, MockMachine& /*machine*/) {
      std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
      if (known) finish(reduce_on(world, on_gpu(own), 0));
      const float before = own[0];
      world.barrier().wait();
      if (world.rank() != 1) {
        expect_named_in_time(world, on_gpu(own), 1);
        EXPECT_EQ(own[0], before) << "outputs are untouched";
      } else {
        EXPECT_TRUE(breaks_soon(world));
      }
      EXPECT_FALSE(world.health().ok());
    });
  }
}

TEST_P(MockWaysInParts, AnAbortInTheMiddleEndsItOnAllRanks) {
  std::vector<std::vector<float>> values(3, std::vector<float>(4000, 1));
  std::barrier together(3);
  run(3, [&](ProcessGroup& world, MockMachine& machine) {
    std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
    finish(reduce_on(world, on_gpu(own), 0));
    std::optional<Hold> results;
    if (world.rank() == 2) results.emplace(machine, 2);
    Work work = reduce_on(world, on_gpu(own), 0);
    Work behind = reduce_on(world, on_gpu(own), 0);
    together.arrive_and_wait();
    if (world.rank() == 2) {
      EXPECT_FALSE(work.wait_for(5ms));
      world.abort("enough of it");
      results.reset();
    }
    for (Work* const one : {&work, &behind}) EXPECT_THROW(finish(std::move(*one)), BackendError);
    EXPECT_THAT(std::string(world.health().message()), HasSubstr("enough of it"));
  });
}

TEST_P(MockGpuWays, NothingIsCalledAfterTheDriverHasGone) {
  GetParam().run(1, false, [](ProcessGroup& world, MockMachine& machine) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    // The world is destroyed later than the driver, as a static one is at exit.
    const std::lock_guard lock(machine.mutex);
    machine.deinitialized = true;
  });
}

}  // namespace
}  // namespace tutti::test
