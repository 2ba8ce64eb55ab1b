#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mock_gpu_calls.hpp"
#include "mock_staged_ranks.hpp"

// Tensors of GPUs on our own engine: how calls are ordered with the streams of the caller, with
// each other and with calls of the CPU, over a mock of CUDA's driver that tells races.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

Config patient() {
  Config config;
  config.timeout = kForever;
  return config;
}

void run_checked(MockGpuWorld& mock, int ranks,
                 const std::function<void(ProcessGroup& world)>& body) {
  run_mock_staged(mock, ranks, patient(), true, body);
  EXPECT_EQ(mock.machine.misuses(), "");
  EXPECT_EQ(mock.machine.leaks(), "");
  EXPECT_EQ(mock.machine.looked_again, 0);
}

Work message(ProcessGroup& world, Kind kind, std::vector<float>& values, int peer,
             std::uintptr_t stream) {
  Details details;
  details.stream = stream;
  Collective call;
  call.kind = kind;
  call.root = peer;
  (kind == Kind::send ? call.input : call.output) = on_gpu(values);
  call.details = &details;
  return world.submit(call, std::nullopt, false);
}

TEST(MockStagedStreams, AnOperationFollowsTheCallersStreamAndWaitOrdersIt) {
  MockGpuWorld mock(2);
  run_checked(mock, 2, [&](ProcessGroup& world) {
    CallersStream stream(mock, world.rank());  // before the GPU's own is made
    std::vector<float> source(8, static_cast<float>(world.rank() + 1));
    std::vector<float> values(8, 0);
    std::vector<float> result(8, 0);
    stream.hold(true);
    stream.copy(values, source);  // not done yet when the operation is called
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    EXPECT_FALSE(work.wait_for(5ms)) << "its input is not there";
    EXPECT_FALSE(work.done());
    stream.hold(false);
    finish(std::move(work));
    EXPECT_EQ(values, std::vector<float>(8, 3));
    {
      const Hold results(mock, world.rank());
      work = reduce_on(world, on_gpu(values), stream.handle);
      work.wait();  // the host goes on, though the result is not there
      stream.copy(result, values);
      EXPECT_EQ(result, std::vector<float>(8, 0));
    }
    finish(reduce_on(world, on_gpu(source), stream.handle));
    EXPECT_EQ(result, std::vector<float>(8, 6));
  });
}

TEST(MockStagedStreams, TheInputMayBeOverwrittenInTheOrderOfTheStream) {
  MockGpuWorld mock(2);
  run_checked(mock, 2, [&](ProcessGroup& world) {
    CallersStream stream(mock, world.rank());
    std::vector<float> zeros(8, 0);
    std::vector<float> own(8, static_cast<float>(world.rank() + 1));
    std::vector<float> all(16, 0);
    Details details;
    details.stream = stream.handle;
    Collective call;
    call.kind = Kind::all_gather;
    call.input = on_gpu(own);
    call.output = on_gpu(all);
    call.details = &details;
    Work work = world.submit(call, std::nullopt, false);
    stream.copy(own, zeros);  // without a wait
    finish(std::move(work));
    EXPECT_EQ(all[0], 1);
    EXPECT_EQ(all[15], 2);
  });
}

TEST(MockStagedStreams, CollectivesKeepTheirOrderThoughStreamsDoNot) {
  MockGpuWorld mock(3);
  run_checked(mock, 3, [&](ProcessGroup& world) {
    CallersStream slow(mock, world.rank());
    CallersStream quick(mock, world.rank());
    std::vector<float> first(4, 1);
    std::vector<double> second(7, 1);
    std::vector<int> third(5, 1);
    slow.hold(world.rank() == 1);
    Work one = reduce_on(world, on_gpu(first), slow.handle);
    Work two = reduce_on(world, on_gpu(second), quick.handle);
    Work three = world.all_reduce(third);  // of the CPU
    Work four = world.barrier();
    if (world.rank() == 1) {
      EXPECT_FALSE(two.wait_for(5ms)) << "one before it waits";
      EXPECT_FALSE(three.wait_for(1ms));
      EXPECT_FALSE(four.done());
    }
    slow.hold(false);
    four.wait();
    three.wait();
    finish(std::move(two));
    finish(std::move(one));
    EXPECT_EQ(first, std::vector<float>(4, 3));
    EXPECT_EQ(second, std::vector<double>(7, 3));
    EXPECT_EQ(third, std::vector<int>(5, 3));
  });
}

TEST(MockStagedStreams, MessagesWaitOnlyForThoseToTheSameRank) {
  MockGpuWorld mock(3);
  run_checked(mock, 3, [&](ProcessGroup& world) {
    std::vector<float> first(4, 1);
    std::vector<float> second(4, 2);
    std::vector<float> third(4, 3);
    std::vector<float> got(4, 0);
    std::vector<float> got_later(4, 0);
    if (world.rank() == 0) {
      CallersStream slow(mock, 0);
      CallersStream quick(mock, 0);
      slow.hold(true);
      std::vector<float> reduced(4, 1);
      Work collective = reduce_on(world, on_gpu(reduced), slow.handle);
      Work one = message(world, Kind::send, first, 1, slow.handle);
      Work two = world.isend(second, 1);  // of the CPU
      Work three = message(world, Kind::send, third, 2, quick.handle);
      finish(std::move(three));
      (void)world.recv(got, 2);  // it has come there, though the others wait
      EXPECT_FALSE(two.done());
      slow.hold(false);
      finish(std::move(one));
      two.wait();
      finish(std::move(collective));
      return;
    }
    if (world.rank() == 1) {
      finish(world.irecv(on_gpu(got), 0));
      finish(world.irecv(on_gpu(got_later), 0));
      EXPECT_EQ(got, first);
      EXPECT_EQ(got_later, second);
    } else {
      finish(world.irecv(on_gpu(got), any_source));
      EXPECT_EQ(got, third);
      world.isend(got, 0).wait();
    }
    std::vector<float> reduced(4, 1);
    world.all_reduce(reduced).wait();  // one rank has it on a GPU, the others on the CPU
    EXPECT_EQ(reduced, std::vector<float>(4, 3));
  });
}

TEST(MockStagedStreams, AReceiveComesBehindWhatTheStreamHadBefore) {
  MockGpuWorld mock(2);
  run_checked(mock, 2, [&](ProcessGroup& world) {
    std::vector<float> values(4, 5);
    if (world.rank() == 0) {
      finish(world.isend(on_gpu(values), 1));
      return;
    }
    CallersStream stream(mock, 1);
    std::vector<float> got(4, 0);
    std::vector<float> before(4, -1);
    stream.hold(true);
    stream.copy(before, got);
    Work work = message(world, Kind::recv, got, 0, stream.handle);
    EXPECT_FALSE(work.wait_for(20ms)) << "what the stream had reads the tensor";
    stream.hold(false);
    finish(std::move(work));
    EXPECT_EQ(before, std::vector<float>(4, 0));
    EXPECT_EQ(got, values);
  });
}

TEST(MockStagedStreams, CallsByNameAreOnTheStreamOfTheInnermostGuard) {
  MockGpuWorld mock(1);
  run_checked(mock, 1, [&](ProcessGroup& world) {
    CallersStream stream(mock, 0);
    CallersStream other(mock, 0);
    std::vector<float> values(4, 1);
    std::vector<float> sent(4, 2);
    std::vector<float> got(4, 0);
    stream.hold(true);
    const StreamGuard around(other.handle);
    Work work;
    Work send;
    {
      const StreamGuard guard(stream.handle);
      work = world.all_reduce(on_gpu(values));
      send = world.isend(on_gpu(sent), 0);
    }
    EXPECT_FALSE(work.wait_for(5ms)) << "the stream does not go on";
    EXPECT_FALSE(send.done());
    Work receive = world.irecv(on_gpu(got), 0);
    stream.hold(false);
    finish(std::move(work));
    finish(std::move(receive));
    finish(std::move(send));
    EXPECT_EQ(values, std::vector<float>(4, 1));
    EXPECT_EQ(got, sent);
  });
}

TEST(MockStagedStreams, RanksMayHaveTheirTensorsOnUnlikeDevices) {
  MockGpuWorld mock(3, 2);
  run_checked(mock, 3, [&](ProcessGroup& world) {
    std::vector<std::int64_t> values(5, world.rank());
    const Device device{world.rank() == 0 ? DeviceType::cpu : DeviceType::cuda,
                        static_cast<std::int16_t>(world.rank() == 2 ? 1 : 0)};
    const TensorView view(values.data(), DType::int64, values.size(), device);
    finish(world.all_reduce(view));
    EXPECT_EQ(values, std::vector<std::int64_t>(5, 3));
    // And one rank on several.
    std::vector<std::int64_t> other(5, 1);
    finish(world.all_reduce(TensorView(other.data(), DType::int64, 5, {DeviceType::cuda, 1})));
    EXPECT_EQ(other, std::vector<std::int64_t>(5, 3));
  });
}

TEST(MockStagedStreams, MakingAGroupWaitsForCallsBeforeIt) {
  MockGpuWorld mock(2);
  run_checked(mock, 2, [&](ProcessGroup& world) {
    CallersStream stream(mock, world.rank());
    std::vector<float> values(4, 1);
    stream.hold(world.rank() == 1);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    std::thread frees([&] {
      std::this_thread::sleep_for(5ms);  // while the group is being made, most likely
      stream.hold(false);
    });
    std::optional<ProcessGroup> group = world.new_group({1, 0});
    frees.join();
    ASSERT_TRUE(group.has_value());
    finish(std::move(work));
    finish(group->all_reduce(on_gpu(values)));
    EXPECT_EQ(values, std::vector<float>(4, 4));
  });
}

TEST(MockStagedStreams, AStreamThatIsCapturedIsRefusedToTheCallerAlone) {
  MockGpuWorld mock(1);
  run_checked(mock, 1, [&](ProcessGroup& world) {
    CallersStream stream(mock, 0);
    std::vector<float> values(8, 1);
    {
      const Capture capture(stream);
      for (const std::uintptr_t its : {stream.handle, std::uintptr_t{0}}) {
        Work work = reduce_on(world, on_gpu(values), its);
        EXPECT_TRUE(work.done());
        EXPECT_THAT(std::string(work.error().message()),
                    testing::HasSubstr("captured into a CUDA graph"));
      }
    }
    finish(reduce_on(world, on_gpu(values), stream.handle));
  });
}

TEST(MockStagedStreams, AWaitDuringACaptureForACallBeforeItIsTheHosts) {
  MockGpuWorld mock(2);
  run_checked(mock, 2, [&](ProcessGroup& world) {
    CallersStream stream(mock, world.rank());
    std::vector<float> values(8, 1);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    const Capture capture(stream);
    work.wait();
    EXPECT_EQ(values, std::vector<float>(8, 2)) << "the stream could not be told to wait for it";
  });
}

TEST(MockStagedStreams, ACaptureOfAnotherStreamIsNotDisturbed) {
  MockGpuWorld mock(1);
  run_checked(mock, 1, [&](ProcessGroup& world) {
    CallersStream stream(mock, 0);
    CallersStream other(mock, 0);
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

TEST(MockStagedStreams, TheMockTellsAnAccessThatIsNotOrdered) {
  MockGpuWorld mock(1);
  run_mock_staged(mock, 1, patient(), true, [&](ProcessGroup& world) {
    CallersStream stream(mock, 0);
    CallersStream other_stream(mock, 0);
    std::vector<float> values(8, 1);
    std::vector<float> other(8, 1);
    stream.hold(true);  // else the operation may be over, and the host know it, before the copy
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    other_stream.copy(values, other);
    stream.hold(false);
    finish(std::move(work));
  });
  EXPECT_THAT(mock.machine.misuses(), testing::HasSubstr("a race on rank 0"));
}

}  // namespace
}  // namespace tutti::test
