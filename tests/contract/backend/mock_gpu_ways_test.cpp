#include <gmock/gmock.h>

#include <barrier>
#include <numeric>

#ifdef TUTTI_TEST_NCCL
#include "mock_nccl_ranks.hpp"
#endif
#include "mock_staged_ranks.hpp"

// Tests that hold whichever way tensors of GPUs go between ranks: by the host as a whole, in parts,
// from GPU to GPU, by NCCL, or as each group chooses. Over mocks of CUDA's driver and of NCCL,
// which tell races.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// The mocks are to have seen nothing that is left and no misuse, no misuse, a race, or no call.
enum class Seen { clean, no_misuse, race, no_call };

struct GpuWay {
  std::string name;
  std::size_t count = 4;  ///< elements of a call that shows what is special
  std::function<void(int ranks, Seen seen, const Arrangement::Body& body)> run;
};

void PrintTo(const GpuWay& way, std::ostream* out) { *out << way.name; }

void expect_seen(MockMachine& machine, Seen seen) {
  if (seen == Seen::no_call) {
    EXPECT_TRUE(machine.calls(0).empty());
  }
  if (seen == Seen::clean || seen == Seen::no_call) return expect_clean(machine);
  EXPECT_THAT(machine.misuses(), seen == Seen::race
                                     ? testing::Matcher<std::string>(HasSubstr("a race on rank 0"))
                                     : testing::Matcher<std::string>(""));
}

/// `run`: runs the body on the ranks of such a world.
template <class World, class Run>
GpuWay way_of(std::string name, std::size_t count, Run run) {
  return {std::move(name), count, [run](int ranks, Seen seen, const Arrangement::Body& body) {
            World mock(ranks);
            run(mock, body);
            expect_seen(mock.machine, seen);
          }};
}

GpuWay staged_way(std::string name, std::size_t count, const gpu::DirectOptions& direct) {
  return way_of<MockGpuWorld>(std::move(name), count, [direct](auto& mock, const auto& body) {
    run_mock_staged(mock, {.direct = direct}, body);
  });
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
  ways.push_back(way_of<MockNcclWorld>(
      "Nccl", 4, [](auto& mock, const auto& body) { run_mock_nccl(mock, body); }));
#endif
  return ways;
}

std::vector<GpuWay> and_choice(std::vector<GpuWay> ways) {
#ifdef TUTTI_TEST_NCCL
  ways.push_back(way_of<MockNcclWorld>("Choice", 4, [](auto& mock, const auto& body) {
    run_mock_choice(mock, gpu_of_each(static_cast<int>(mock.cuda.size())), body);
  }));
#endif
  return ways;
}

/// Tensors of the CPU go by one of them.
std::vector<GpuWay> and_two_backends(std::vector<GpuWay> ways) {
  ways = and_choice(std::move(ways));
#ifdef TUTTI_TEST_NCCL
  ways.push_back(way_of<MockNcclWorld>("Routes", 4, [](auto& mock, const auto& body) {
    run_mock_nccl(mock, {.backend = kRoutes}, body);
  }));
#endif
  return ways;
}

std::string name_of_way(const testing::TestParamInfo<GpuWay>& one) { return one.param.name; }

class MockGpuWays : public testing::TestWithParam<GpuWay> {
 protected:
  static void run(int ranks, const Arrangement::Body& body, Seen seen = Seen::clean) {
    GetParam().run(ranks, seen, body);
  }
};
class MockWaysOfOneBackend : public MockGpuWays {};
class MockOwnWays : public MockGpuWays {};
class MockWaysThatAgree : public MockGpuWays {};
class MockWaysInParts : public MockGpuWays {};
class MockTwoBackends : public MockGpuWays {};

INSTANTIATE_TEST_SUITE_P(Of, MockGpuWays,
                         testing::ValuesIn(and_two_backends(ways_of_one_backend())), name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockWaysOfOneBackend, testing::ValuesIn(ways_of_one_backend()),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockOwnWays, testing::ValuesIn(own_ways()), name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockWaysThatAgree, testing::ValuesIn(and_choice(ways_in_parts())),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockWaysInParts, testing::ValuesIn(ways_in_parts()), name_of_way);
INSTANTIATE_TEST_SUITE_P(Of, MockTwoBackends, testing::ValuesIn(and_two_backends({})), name_of_way);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MockTwoBackends);

constexpr std::size_t kCounts[] = {4, 900};  // one part, and several

// ---- Streams

TEST_P(MockOwnWays, CollectivesKeepTheirOrderThoughStreamsDoNot) {
  run(3, [](ProcessGroup& world) {
    for (const std::size_t count : kCounts) {
      for (int late = 0; late < 3; ++late) {
        SCOPED_TRACE(std::to_string(count) + " elements, late is rank " + std::to_string(late));
        CallersStream slow(world);
        CallersStream quick(world);
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

TEST_P(MockGpuWays, AnOperationFollowsTheCallersStreamAndWaitOrdersIt) {
  run(2, [](ProcessGroup& world) {
    CallersStream stream(world);
    for (const std::size_t count : kCounts) {
      std::vector<float> source(count, static_cast<float>(world.rank() + 1));
      std::vector<float> values(count, 0);
      std::vector<float> result(count, 0);
      for (int i = 0; i < 3; ++i) {  // before the ranks agree, and after it
        stream.hold(true);
        stream.copy(values, source);  // not done yet when the operation is called
        Work work = reduce_on(world, on_gpu(values), stream.handle);
        EXPECT_FALSE(work.wait_for(5ms)) << "its input is not there";
        EXPECT_FALSE(work.done());
        stream.hold(false);
        work.wait();
        stream.copy(result, values);  // behind it in the stream
        finish(reduce_on(world, on_gpu(source), stream.handle));
        EXPECT_EQ(result, std::vector<float>(count, 3.0F * static_cast<float>(1 << i)));
      }
    }
  });
}

TEST_P(MockWaysOfOneBackend, SynchronizeAfterWaitWaitsForTheGpu) {
  run(2, [](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    finish(reduce_on(world, on_gpu(values), 0));  // makes the stream that brings results
    auto held = std::make_unique<Hold>(world);
    expect_told_after_wait(reduce_on(world, on_gpu(values), 0), std::move(held));
    read_on_host(world, values);
    EXPECT_EQ(values, std::vector<float>(8, 4));
  });
}

TEST_P(MockWaysOfOneBackend, AWaitDuringACaptureForACallBeforeItIsTheHosts) {
  run(2, [](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> values(8, 1);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    const Capture capture(stream);
    work.wait();
    EXPECT_EQ(values, std::vector<float>(8, 2)) << "the stream could not be told to wait for it";
  });
}

TEST_P(MockGpuWays, ACaptureOfAnotherStreamIsNotDisturbed) {
  run(1, [](ProcessGroup& world) {
    CallersStream stream(world);
    CallersStream other(world);
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

TEST_P(MockWaysOfOneBackend, AStreamThatIsCapturedIsRefusedToTheCallerAlone) {
  run(1, [](ProcessGroup& world) {
    const bool nccl = GetParam().name == "Nccl";  // it says more
    CallersStream stream(world);
    std::vector<float> values(8, 1);
    const auto refused = [&](Work work, const char* why_nccl) {
      EXPECT_TRUE(work.done());
      EXPECT_THAT(std::string(work.error().message()), HasSubstr("captured into a CUDA graph"));
      if (nccl) {
        EXPECT_THAT(std::string(work.error().message()), HasSubstr(why_nccl));
      }
    };
    {
      const Capture capture(stream);
      refused(reduce_on(world, on_gpu(values), stream.handle), "before the capture");
      refused(reduce_on(world, on_gpu(values), 0), "the default stream");
    }
    finish(reduce_on(world, on_gpu(values), stream.handle));
    const Capture capture(stream);
    const StreamGuard guard(stream.handle);
    refused(world.isend(on_gpu(values), 0), "message");
  });
}

TEST_P(MockWaysOfOneBackend, TheMockTellsAnAccessThatIsNotOrdered) {
  for (const bool reads : {false, true}) {
    SCOPED_TRACE(reads ? "a read" : "a write of another stream");
    const auto body = [reads](ProcessGroup& world) {
      CallersStream stream(world);
      CallersStream other_stream(world);
      std::vector<float> values(8, 1);
      std::vector<float> other(8, 1);
      stream.hold(true);  // else the operation may be over, and the host know it, before the copy
      Work work = reduce_on(world, on_gpu(values), stream.handle);
      if (reads)
        stream.copy(other, values);  // without a wait
      else
        other_stream.copy(values, other);
      stream.hold(false);
      finish(std::move(work));
    };
    run(1, body, Seen::race);
  }
}

// ---- Calls that do not fit, and failures

TEST_P(MockWaysThatAgree, UnlikeCallsAreADisagreement) {
  const std::size_t count = GetParam().count;
  const std::string of_sum = "all_reduce(SUM, float32 x " + std::to_string(count) + ", on GPUs)";
  // One that goes by way of the host is not always said to be on GPUs.
  const std::string of_premul_sum = "all_reduce(PREMUL_SUM, float32 x " + std::to_string(count) +
                                    (GetParam().name == "Direct" ? ", on GPUs)" : "");
  for (const std::string odd : {"of the CPU", "PREMUL_SUM", "shorter"}) {
    for (const bool known : {false, true}) {
      if (known && GetParam().name == "Choice") continue;  // then NCCL waits for ever
      SCOPED_TRACE(odd + (known ? ", known" : ""));
      std::barrier together(3);  // or the error of a quicker rank would end the call before
      run(3, [&](ProcessGroup& world) {
        std::vector<float> values(count, 1);
        std::vector<float> factor(1, 2);
        std::vector<float> fewer(count - 1, 1);
        if (known) finish(reduce_on(world, on_gpu(values), 0));
        together.arrive_and_wait();
        const auto call = [&] {
          if (world.rank() != 1) return world.all_reduce(on_gpu(values));
          if (odd == "of the CPU") return world.all_reduce(values);
          if (odd == "shorter") return world.all_reduce(on_gpu(fewer));
          return reduce_on(world, on_gpu(values), 0, ReduceOp::premul_sum, on_gpu(factor));
        };
        EXPECT_THROW(finish(call()), DisagreementError);
        EXPECT_THAT(std::string(world.health().message()),
                    HasSubstr(odd == "PREMUL_SUM" ? of_premul_sum : of_sum));
        EXPECT_EQ(values, std::vector<float>(count, known ? 3 : 1)) << "outputs are untouched";
      });
    }
  }
}

TEST_P(MockWaysThatAgree, ALateRankIsNamedAndBlocksNoStream) {
  for (const bool known : {false, true}) {
    std::vector<std::vector<float>> values(3, std::vector<float>(GetParam().count, 1));
    run(3, [&](ProcessGroup& world) {
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
  run(3, [&](ProcessGroup& world) {
    std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
    finish(reduce_on(world, on_gpu(own), 0));
    std::optional<Hold> results;
    if (world.rank() == 2) results.emplace(world);
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

TEST_P(MockTwoBackends, AnAbortBreaksBoth) {
  std::barrier together(2);
  run(2, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    together.arrive_and_wait();
    if (world.rank() == 0) world.abort("enough");
    EXPECT_TRUE(breaks_soon(world));
    EXPECT_THROW(world.all_reduce(values).wait(), BackendError);
    Work work = world.all_reduce(on_gpu(values));
    EXPECT_TRUE(work.wait_for(std::chrono::nanoseconds::max()));
    EXPECT_EQ(work.error().code(), Errc::aborted);
  });
}

TEST_P(MockGpuWays, NothingIsAskedWithoutATensorOfAGpu) {
  const auto body = [](ProcessGroup& world) {
    EXPECT_EQ(world.size(), 2);
    world.barrier().wait();
    world.new_subgroups(2).barrier().wait();
    EXPECT_TRUE(world.split(world.rank()));
    if (GetParam().name == "Nccl") return;  // it takes no tensor of the CPU
    std::vector<float> values(4, 1);
    world.all_reduce(values).wait();
    EXPECT_EQ(values, std::vector<float>(4, 2));
    world.monitored_barrier();
    ProcessGroup part = world.split(0, -world.rank());
    ASSERT_TRUE(part);
    part.all_reduce(values).wait();
    EXPECT_EQ(values, std::vector<float>(4, 4));
  };
  run(2, body, Seen::no_call);
}

TEST_P(MockGpuWays, NothingIsCalledAfterTheDriverHasGone) {
  const auto body = [](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    // The world is destroyed later than the driver, as a static one is at exit.
    const std::lock_guard lock(mock_world()->machine.mutex);
    mock_world()->machine.deinitialized = true;
  };
  run(1, body, Seen::no_misuse);
}

TEST_P(MockWaysOfOneBackend, AForkedChildGetsAnError) {
  run(1, [](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    EXPECT_EQ(status_of_fork([&] { world.all_reduce(on_gpu(values)).wait(); }), 0);
    finish(world.all_reduce(on_gpu(values)));
    // A call that the parent has made, and another one.
    EXPECT_EQ(status_of_fork([&] { world.all_reduce(on_gpu(values)).wait(); }), 0);
    EXPECT_EQ(status_of_fork([&] { world.broadcast(on_gpu(values)).wait(); }), 0);
  });
}

}  // namespace
}  // namespace tutti::test
