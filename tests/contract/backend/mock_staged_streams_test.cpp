#include <gmock/gmock.h>

#include "mock_staged_ranks.hpp"

// Tensors of GPUs on our own engine: how calls are ordered with the streams of the caller, with
// each other and with calls of the CPU, over a mock of CUDA's driver that tells races; and when a
// function of CUDA fails.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

TEST(MockStagedStreams, AWaitDoesNotHoldTheHostUntilTheResultIsThere) {
  run_staged(MockGpuWorld(2), [&](ProcessGroup& world) {
    CallersStream stream(world);  // before the GPU's own is made
    for (const bool destroyed : {false, true}) {
      std::vector<float> values(8, static_cast<float>(world.rank() + 1));
      std::vector<float> result(8, 0);
      finish(reduce_on(world, on_gpu(values), stream.handle));
      {
        const Hold results(world);
        Work work = reduce_on(world, on_gpu(values), stream.handle);
        destroyed ? (void)(work = Work()) : work.wait();
        stream.copy(result, values);
        EXPECT_EQ(result, std::vector<float>(8, 0));
      }
      finish(reduce_on(world, on_gpu(values), stream.handle));
      EXPECT_EQ(result, std::vector<float>(8, 6));
    }
  });
}

TEST(MockStagedStreams, AWorkThatWasWaitedForOutlivesItsGroup) {
  run_staged(MockGpuWorld(2), [&](ProcessGroup& world) {
    ProcessGroup group = world.new_group({0, 1});
    std::vector<float> values(8, 1);
    finish(reduce_on(group, on_gpu(values), 0));  // makes the stream that brings results
    auto held = std::make_unique<Hold>(world);
    Work work = reduce_on(group, on_gpu(values), 0);
    work.wait();
    group = {};
    EXPECT_FALSE(work.done());
    held.reset();
    work.synchronize();
    read_on_host(world, values);
    EXPECT_EQ(values, std::vector<float>(8, 4));
  });
}

TEST(MockStagedStreams, TheInputMayBeOverwrittenInTheOrderOfTheStream) {
  run_staged(MockGpuWorld(2), [&](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> zeros(8, 0);
    std::vector<float> own(8, static_cast<float>(world.rank() + 1));
    std::vector<float> all(16, 0);
    Work work =
        submit_on(world, {.kind = Kind::all_gather, .input = on_gpu(own), .output = on_gpu(all)},
                  stream.handle);
    stream.copy(own, zeros);  // without a wait
    finish(std::move(work));
    EXPECT_EQ(all[0], 1);
    EXPECT_EQ(all[15], 2);
  });
}

TEST(MockStagedStreams, MessagesWaitOnlyForThoseToTheSameRank) {
  run_staged(MockGpuWorld(3), [&](ProcessGroup& world) {
    std::vector<float> first(4, 1);
    std::vector<float> second(4, 2);
    std::vector<float> third(4, 3);
    std::vector<float> got(4, 0);
    std::vector<float> got_later(4, 0);
    if (world.rank() == 0) {
      CallersStream slow(world);
      CallersStream quick(world);
      slow.hold(true);
      std::vector<float> reduced(4, 1);
      Work collective = reduce_on(world, on_gpu(reduced), slow.handle);
      Work one = send_to(world, on_gpu(first), 1, 0, slow.handle);
      Work two = world.isend(second, 1);  // of the CPU
      Work three = send_to(world, on_gpu(third), 2, 0, quick.handle);
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
  run_staged(MockGpuWorld(2), [&](ProcessGroup& world) {
    std::vector<float> values(4, 5);
    if (world.rank() == 0) {
      finish(world.isend(on_gpu(values), 1));
      return;
    }
    CallersStream stream(world);
    std::vector<float> got(4, 0);
    std::vector<float> before(4, -1);
    stream.hold(true);
    stream.copy(before, got);
    Work work = recv_from(world, on_gpu(got), 0, 0, stream.handle);
    EXPECT_FALSE(work.wait_for(20ms)) << "what the stream had reads the tensor";
    stream.hold(false);
    finish(std::move(work));
    EXPECT_EQ(before, std::vector<float>(4, 0));
    EXPECT_EQ(got, values);
  });
}

TEST(MockStagedStreams, CallsByNameAreOnTheStreamOfTheInnermostGuard) {
  run_staged(MockGpuWorld(1), [&](ProcessGroup& world) {
    CallersStream stream(world);
    CallersStream other(world);
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
  run_staged(MockGpuWorld(3, 2), [&](ProcessGroup& world) {
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
  run_staged(MockGpuWorld(2), [&](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> values(4, 1);
    stream.hold(world.rank() == 1);
    Work work = reduce_on(world, on_gpu(values), stream.handle);
    std::thread frees([&] {
      std::this_thread::sleep_for(5ms);  // while the group is being made, most likely
      stream.hold(false);
    });
    ProcessGroup group = world.new_group({1, 0});
    frees.join();
    ASSERT_TRUE(group);
    finish(std::move(work));
    finish(group.all_reduce(on_gpu(values)));
    EXPECT_EQ(values, std::vector<float>(4, 4));
  });
}

// ---- A function of CUDA fails, a stream does not come on, a rank aborts or leaves

TEST(MockStagedFaults, AFailureOfAnyFunctionIsToldWithItsTextAndLeavesNothing) {
  std::vector<GpuProgram> programs;
  const auto run = [&](MockGpuWorld& mock) {
    programs = std::vector<GpuProgram>(kRanks);
    run_mock_staged(mock, [&](ProcessGroup& group) {
      GpuProgram& own = programs[static_cast<std::size_t>(group.rank())];
      own.run(group, on_gpu(own.factors));
      const Hold results(group);
      group.all_reduce(on_gpu(own.a)).wait();
      raise_if(group.health());
    });
  };
  const std::vector<std::string> functions = functions_of<MockGpuWorld>(run);
  // All but what gives back what was made.
  EXPECT_THAT(functions, testing::IsSupersetOf({"cuStreamWaitEvent", "cuMemcpy2DAsync"}));
  EXPECT_GE(functions.size(), 14U) << testing::PrintToString(functions);
  const auto check = [](MockGpuWorld& mock, const Fault& fault, const std::string& text) {
    if (mock.machine.was_hit() && !text.empty()) {
      EXPECT_THAT(text, testing::HasSubstr(fault.function + " failed: a planted fault of CUDA"));
    }
    EXPECT_TRUE(mock.machine.was_hit() || fault.occurrence > 0);
    EXPECT_TRUE(!text.empty() || fault.occurrence > 0) << "nobody was told";
  };
  plant_each<MockGpuWorld>(functions, {0, 1, 2, 5}, {0}, run, check);
}

TEST(MockStagedFaults, AStreamThatDoesNotComeOnIsATimeoutThatNamesItsRank) {
  std::vector<std::vector<float>> values(2, std::vector<float>(4, 1));
  run_staged(MockGpuWorld(2), [&](ProcessGroup& world) {
    std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
    CallersStream stream(world);
    stream.hold(world.rank() == 1);
    std::optional<std::chrono::nanoseconds> limit;
    if (world.rank() == 1) limit = 100ms;
    Work work = submit_on(world, all_reduce_of(on_gpu(own)), stream.handle, limit);
    const Outcome error = error_of<TimeoutError>([&] { work.wait(); });
    EXPECT_EQ(error.culprit(), 1) << error.message();
    EXPECT_THAT(error.message(), testing::HasSubstr("its stream has not come to it"));
    EXPECT_THAT(error.message(), testing::HasSubstr("timeout 0.1 s"));
    EXPECT_EQ(own, std::vector<float>(4, 1)) << "outputs are untouched";
    stream.hold(false);
  });
}

TEST(MockStagedFaults, AnAbortEndsWhatWaitsForAStream) {
  std::vector<std::vector<float>> values(3, std::vector<float>(4, 1));
  run_staged(MockGpuWorld(3), [&](ProcessGroup& world) {
    std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
    CallersStream stream(world);
    stream.hold(true);
    Work work = reduce_on(world, on_gpu(own), stream.handle);
    Work behind = world.barrier();
    if (world.rank() == 0) world.abort("enough of it");
    for (Work* const one : {&work, &behind}) {
      EXPECT_THROW(one->wait(), BackendError);
      EXPECT_THAT(std::string(one->error().message()), testing::HasSubstr("enough of it"));
    }
    Work later = reduce_on(world, on_gpu(own), 0);
    EXPECT_THROW(later.wait(), BackendError);
    stream.hold(false);
  });
}

/// The group goes while a stream still has the copy of an input before it.
TEST(MockStagedFaults, AGroupThatIsLeftWaitsForCopiesThatBegan) {
  MockGpuWorld mock(1);
  std::vector<float> values(4, 1);
  std::optional<CallersStream> stream;
  std::thread frees;
  run_mock_staged(mock, [&](ProcessGroup& world) {
    stream.emplace(world);
    stream->hold(true);
    Work work = reduce_on(world, on_gpu(values), stream->handle);
    work.detach();
    frees = std::thread([&] {
      std::this_thread::sleep_for(20ms);  // while the world is left, most likely
      stream->hold(false);
    });
  });
  frees.join();
  stream.reset();
  expect_clean(mock.machine);
}

TEST(MockStagedFaults, ADeviceThatIsNotThereIsRefusedAtTheCall) {
  run_staged(MockGpuWorld(1), [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    const TensorView there(values.data(), DType::float32, 4, {DeviceType::cuda, 1});
    const Outcome error = error_of<InvalidArgument>([&] { (void)world.all_reduce(there); });
    EXPECT_THAT(error.message(), testing::HasSubstr("the input is in the memory of cuda:1"));
    EXPECT_THAT(error.message(), testing::HasSubstr("there is no device cuda:1"));
    finish(world.all_reduce(on_gpu(values)));  // known to be fine
    Work work = world.all_reduce(there);
    EXPECT_THROW(work.wait(), InvalidArgument);
    EXPECT_TRUE(world.health().ok()) << "it was told to the caller alone";
  });
}

}  // namespace
}  // namespace tutti::test
