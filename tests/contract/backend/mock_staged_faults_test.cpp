#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "mock_staged_ranks.hpp"

// Tensors of GPUs on our own engine when a function of CUDA fails, a stream does not come on, a
// rank aborts or leaves.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

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
    const Status error = error_of<InvalidArgument>([&] { (void)world.all_reduce(there); });
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
