#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "mock_gpu_calls.hpp"
#include "mock_staged_ranks.hpp"

// Tensors of GPUs on our own engine when a function of CUDA fails, a stream does not come on, a
// rank aborts or leaves.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// Some of every kind, so that each function is called. The tensors outlive the world.
struct StagedProgram {
  std::vector<float> a = std::vector<float>(12, 1);
  std::vector<float> wide = std::vector<float>(24, 1);
  std::vector<float> all = std::vector<float>(36, 0);
  std::vector<float> got = std::vector<float>(12, 0);
  std::vector<float> factors = std::vector<float>(12, 2);

  void run(ProcessGroup& world, MockGpuWorld& mock) {
    const int next = (world.rank() + 1) % world.size();
    const int before = (world.rank() + world.size() - 1) % world.size();
    finish(world.all_reduce(on_gpu(a)));
    {
      const Hold results(mock, world.rank());
      world.all_reduce(on_gpu(a)).wait();
    }
    finish(reduce_on(world, on_gpu(a), 0, ReduceOp::premul_sum, on_gpu(factors)));
    const std::int64_t shape[] = {12};
    const std::int64_t strides[] = {2};
    finish(world.all_reduce(TensorView(wide.data(), DType::float32, shape, strides, kGpu)));
    finish(world.all_gather(on_gpu(all), on_gpu(a)));
    Work sent = world.isend(on_gpu(a), next);
    finish(world.irecv(on_gpu(got), before));
    finish(std::move(sent));
    ProcessGroup group = world.new_subgroups(world.size());
    finish(group.all_reduce(on_gpu(a)));
  }
};

TEST(MockStagedFaults, AFailureOfAnyFunctionIsToldWithItsTextAndLeavesNothing) {
  std::vector<std::string> functions;
  {
    MockGpuWorld world(kRanks);
    std::vector<StagedProgram> programs(kRanks);
    run_mock_staged(world, [&](ProcessGroup& group) {
      programs[static_cast<std::size_t>(group.rank())].run(group, world);
    });
    expect_clean(world.machine);
    for (const auto& [function, calls] : world.machine.calls(0)) functions.push_back(function);
  }
  // All but what gives back what was made.
  EXPECT_THAT(functions, testing::Contains("cuStreamWaitEvent"));
  EXPECT_THAT(functions, testing::Contains("cuMemcpy2DAsync"));
  EXPECT_GE(functions.size(), 14U) << testing::PrintToString(functions);
  for (const std::string& function : functions) {
    for (const int occurrence : {0, 1, 2, 5}) {
      SCOPED_TRACE(function + " " + std::to_string(occurrence));
      MockGpuWorld world(kRanks);
      world.machine.plant(0, function, occurrence);
      std::vector<StagedProgram> programs(kRanks);
      std::string text;
      try {
        run_mock_staged(world, [&](ProcessGroup& group) {
          programs[static_cast<std::size_t>(group.rank())].run(group, world);
          if (!group.health().ok()) raise(group.health());
        });
      } catch (const Error& error) {
        text = error.what();
      }
      if (world.machine.was_hit() && !text.empty()) {
        EXPECT_THAT(text, testing::HasSubstr(function + " failed: a planted fault of CUDA"));
      }
      EXPECT_TRUE(world.machine.was_hit() || occurrence > 0);
      EXPECT_TRUE(!text.empty() || occurrence > 0) << "nobody was told";
      expect_clean(world.machine);
    }
  }
}

TEST(MockStagedFaults, AStreamThatDoesNotComeOnIsATimeoutThatNamesItsRank) {
  MockGpuWorld mock(2);
  std::vector<std::vector<float>> values(2, std::vector<float>(4, 1));
  run_staged(mock, [&](ProcessGroup& world) {
    std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
    CallersStream stream(mock, world.rank());
    stream.hold(world.rank() == 1);
    Details details;
    details.stream = stream.handle;
    Collective call;
    call.kind = Kind::all_reduce;
    call.input = call.output = on_gpu(own);
    call.details = &details;
    Work work = world.submit(
        call, world.rank() == 1 ? std::optional<std::chrono::nanoseconds>(100ms) : std::nullopt,
        false);
    const Status error = error_of<TimeoutError>([&] { work.wait(); });
    EXPECT_EQ(error.culprit(), 1) << error.message();
    EXPECT_THAT(error.message(), testing::HasSubstr("its stream has not come to it"));
    EXPECT_THAT(error.message(), testing::HasSubstr("timeout 0.1 s"));
    EXPECT_EQ(own, std::vector<float>(4, 1)) << "outputs are untouched";
    stream.hold(false);
  });
}

TEST(MockStagedFaults, AnAbortEndsWhatWaitsForAStream) {
  MockGpuWorld mock(3);
  std::vector<std::vector<float>> values(3, std::vector<float>(4, 1));
  run_staged(mock, [&](ProcessGroup& world) {
    std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
    CallersStream stream(mock, world.rank());
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
    stream.emplace(mock, 0);
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

TEST(MockStagedFaults, NothingIsAskedOfTheDriverWithoutATensorOfAGpu) {
  MockGpuWorld mock(2);
  run_mock_staged(mock, [&](ProcessGroup& world) {
    std::vector<int> values(4, 1);
    world.all_reduce(values).wait();
    world.barrier().wait();
    world.new_subgroups(2).barrier().wait();
    EXPECT_TRUE(world.split(world.rank()).has_value());
  });
  EXPECT_TRUE(mock.machine.calls(0).empty());
}

TEST(MockStagedFaults, ADeviceThatIsNotThereIsRefusedAtTheCall) {
  MockGpuWorld mock(1);
  run_staged(mock, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    const TensorView there(values.data(), DType::float32, 4, {DeviceType::cuda, 1});
    const Status error = error_of<InvalidArgument>([&] { (void)world.all_reduce(there); });
    EXPECT_THAT(error.message(), testing::HasSubstr("the input is in the memory of cuda:1"));
    EXPECT_THAT(error.message(), testing::HasSubstr("there is no device cuda:1"));
    finish(world.all_reduce(on_gpu(values)));  // known to be fine
    Work work = world.all_reduce(there);
    EXPECT_THROW(work.wait(), InvalidArgument);
    EXPECT_TRUE(world.health().ok()) << "it was told to the caller alone";
  });
}

TEST(MockStagedFaults, AForkedChildGetsAnError) {
  MockGpuWorld mock(1);
  run_mock_staged(mock, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    // A call that the parent has made, and another one.
    EXPECT_EQ(status_of_fork([&] { world.all_reduce(on_gpu(values)).wait(); }), 0);
    EXPECT_EQ(status_of_fork([&] { world.broadcast(on_gpu(values)).wait(); }), 0);
  });
}

}  // namespace
}  // namespace tutti::test
