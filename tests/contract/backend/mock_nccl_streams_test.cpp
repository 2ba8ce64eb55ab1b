#include <gmock/gmock.h>

#include <barrier>

#include "mock_nccl_ranks.hpp"

// How the backend on NCCL orders streams, over a mock of CUDA's driver that tells races.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

TEST(MockNcclStreams, ACollectiveIsCapturedOnTheCallersStreamItself) {
  MockNcclWorld mock(2);
  run_nccl(mock, [&](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> values(8, static_cast<float>(world.rank() + 1));
    std::vector<float> result(8, 0);
    finish(reduce_on(world, on_gpu(values), stream.handle));  // 3; it makes the communicator
    stream.synchronize();
    const auto events = [&] {
      return std::pair(calls_of(mock, "cuEventRecord", world.rank()),
                       calls_of(mock, "cuStreamWaitEvent", world.rank()));
    };
    const auto before = events();
    {
      const Capture capture(stream);
      Work work = reduce_on(world, on_gpu(values), stream.handle);
      work.wait();
      EXPECT_EQ(events(), before) << "none is recorded, and the stream waits for none";
    }
    stream.synchronize();
    EXPECT_EQ(values, std::vector<float>(8, 3)) << "nothing has run";
    stream.run_graph();
    stream.copy(result, values);
    stream.synchronize();
    EXPECT_EQ(result, std::vector<float>(8, 6));
    finish(reduce_on(world, on_gpu(values), stream.handle));
    EXPECT_EQ(values, std::vector<float>(8, 12));
  });
}

TEST(MockNcclStreams, CapturedCallsThatDifferDisagree) {
  for (const bool both : {true, false}) {  // else rank 1 calls the same, and captures nothing
    MockNcclWorld mock(2);
    mock.network.abort_limit = std::chrono::seconds(1);
    run_nccl(mock, [&](ProcessGroup& world) {
      CallersStream stream(world);
      std::vector<float> values(8, 1);
      finish(reduce_on(world, on_gpu(values), stream.handle));
      std::optional<Capture> capture;
      if (both || world.rank() == 0) capture.emplace(stream);
      const ReduceOp op = both && world.rank() == 0 ? ReduceOp::max : ReduceOp::sum;
      Work work = reduce_on(world, on_gpu(values), stream.handle, op);
      const Outcome error = error_of<DisagreementError>([&] { work.synchronize(); });
      EXPECT_THAT(error.message(), testing::HasSubstr("for a CUDA graph"));
    });
  }
}

TEST(MockNcclStreams, ACapturedCallWaitsUntilNcclHasTheCallsBeforeIt) {
  run_nccl(MockNcclWorld(2), [&](ProcessGroup& world) {
    CallersStream stream(world);
    CallersStream other(world);
    std::vector<float> first(8, 1);
    std::vector<float> values(16, 1);
    const TensorView strided = strided_on_gpu(values);
    Work before = reduce_on(world, on_gpu(first), other.handle);  // its communicator is being made
    {
      const Capture capture(stream);
      reduce_on(world, strided, stream.handle).wait();
    }
    finish(std::move(before));
    stream.run_graph();
    stream.synchronize();
    EXPECT_EQ(values[14], 2);
    EXPECT_EQ(values[15], 1);
  });
}

TEST(MockNcclStreams, ACaptureThatWaitsForOthersEndsByAnAbortOfAnotherThread) {
  MockNcclWorld mock(2);
  run_mock_nccl(mock, [&](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    CallersStream stream(world);
    if (world.rank() == 1) {
      EXPECT_TRUE(breaks_soon(world));
      return;
    }
    Work first = world.all_reduce(on_gpu(values));  // rank 1 never comes
    std::thread aborts([&] {
      std::this_thread::sleep_for(20ms);
      world.abort("a test");
    });
    const Capture capture(stream);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    aborts.join();
    EXPECT_EQ(work.error().code(), Errc::aborted);
    EXPECT_EQ(first.error().code(), Errc::aborted);
  });
  EXPECT_EQ(mock.machine.misuses(), "");
}

TEST(MockNcclStreams, AGraphThatIsAliveHoldsBackNeitherAnAbortNorTheEnd) {
  MockNcclWorld mock(2);
  mock.network.abort_limit = std::chrono::seconds(1);
  std::barrier captured(2);
  run_mock_nccl(mock, [&](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> values(8, 1);
    finish(reduce_on(world, on_gpu(values), stream.handle));
    {
      const Capture capture(stream);
      reduce_on(world, on_gpu(values), stream.handle).synchronize();
    }
    captured.arrive_and_wait();
    if (world.rank() == 0) world.abort("a test");
    EXPECT_THROW(world.all_reduce(on_gpu(values)).synchronize(), Error);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_FALSE(world.health().ok());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s) << "the lock of the group is free";
  });
  EXPECT_EQ(mock.machine.misuses(), "");
}

TEST(MockNcclStreams, OnlyListsThatDoNotLieInARowAreCopied) {
  MockNcclWorld mock(2);
  run_nccl(mock, [&](ProcessGroup& world) {
    const auto copies = [&] { return calls_of(mock, "cuMemAllocAsync", world.rank()); };
    std::vector<float> all(12, static_cast<float>(world.rank() + 1));
    const auto part = [&](std::size_t first, std::size_t count) {
      return TensorView(all.data() + first, DType::float32, count, kGpu);
    };
    const std::vector<TensorView> row{part(0, 12), part(7, 0)};
    finish(world.all_reduce_coalesced(row));
    EXPECT_EQ(copies(), 0);
    EXPECT_EQ(all, std::vector<float>(12, 3));
    const std::vector<TensorView> apart{part(0, 4), part(5, 7)};
    finish(world.all_reduce_coalesced(apart));
    EXPECT_GT(copies(), 0);
    EXPECT_EQ(all[4], 3);
    EXPECT_EQ(all[5], 6);
    EXPECT_EQ(all[11], 6);
  });
}

}  // namespace
}  // namespace tutti::test
