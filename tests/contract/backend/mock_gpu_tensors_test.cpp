#include <gmock/gmock.h>

#include "group/gpu_tensors.hpp"
#include "mock_staged_ranks.hpp"

// Several tensors of one rank on two GPUs, over a mock of CUDA's driver that tells races.
namespace tutti::test {
namespace {

using Floats = std::vector<float>;

/// Says that there are any_image; those of the mock run on the host.
std::span<const std::byte> any_image() {
  static constexpr std::byte kAny[1]{};
  return kAny;
}

/// A sum of three tensors, a mean of it, and both ends of the copies.
struct TensorProgram {
  Floats first = Floats(8, 1);
  Floats second = Floats(8, 2);
  Floats wide = Floats(16, 4);
  Floats result = Floats(8, 0);

  void run(cuda::CudaApi& cuda, std::span<const std::byte> image) {
    const auto gpus = std::make_shared<LocalGpus>(cuda, image);
    GpuTensors tensors(gpus, 0);
    tensors.follow(0, 0);
    tensors.follow(1, 0);
    const TensorView sources[] = {on_gpu(first), on_gpu(second, 1), strided_on_gpu(wide)};
    const TensorView row = tensors.make(DType::float32, 8);
    tensors.combine(row, sources, ReduceOp::sum);
    tensors.divide(row, 2);
    tensors.copy_out(on_gpu(result, 1), row);
    EXPECT_TRUE(tensors.finished(true));
  }
};

TEST(MockGpuTensors, AreCombinedWithAndWithoutKernels) {
  for (const auto& image : {any_image(), std::span<const std::byte>()}) {
    MockGpuWorld mock(1, 2);
    TensorProgram program;
    program.run(*mock.cuda[0], image);
    EXPECT_EQ(program.result, Floats(8, 3.5F));
    expect_clean(mock.machine);
    EXPECT_EQ(mock.machine.calls(0).count("cuLaunchKernel"), image.empty() ? 0U : 1U);
  }
}

/// Two GPUs and a stream of the caller on the first one.
struct TwoGpus {
  MockGpuWorld mock{1, 2};
  std::shared_ptr<LocalGpus> gpus = std::make_shared<LocalGpus>(*mock.cuda[0], any_image());
  std::optional<CallersStream> stream{std::in_place, mock, 0};

  /// The rest, when the stream and the GPUs have gone.
  [[nodiscard]] std::string leaks() {
    stream.reset();
    gpus.reset();
    return mock.machine.leaks();
  }
};

TEST(MockGpuTensors, FollowTheStreamsOfTheCaller) {
  TwoGpus two;
  Floats source(8, 5);
  Floats values(8, 0);
  Floats result(8, 0);
  two.stream->hold(true);
  two.stream->copy(values, source);  // not done yet
  {
    GpuTensors tensors(two.gpus, 1);
    tensors.follow(0, two.stream->handle);
    const TensorView row = tensors.make(DType::float32, 8);
    tensors.copy_in(row, on_gpu(values));
    two.stream->hold(false);
    tensors.copy_out(on_gpu(result, 1), row);
    EXPECT_TRUE(tensors.finished(true));
  }
  EXPECT_EQ(result, Floats(8, 5));
  EXPECT_EQ(two.leaks(), "");
  EXPECT_EQ(two.mock.machine.misuses(), "");
}

TEST(MockGpuTensors, TellEveryFailureAndLeaveNothing) {
  std::vector<std::string> functions;
  {
    MockGpuWorld mock(1, 2);
    TensorProgram program;
    program.run(*mock.cuda[0], any_image());
    for (const auto& [function, calls] : mock.machine.calls(0)) functions.push_back(function);
  }
  EXPECT_THAT(functions, testing::IsSupersetOf({"cuLaunchKernel", "cuMemcpy2DAsync", "cuEventQuery",
                                                "cuStreamWaitEvent", "cuMemAllocAsync"}));
  int told = 0;
  for (const auto& image : {any_image(), std::span<const std::byte>()}) {
    for (const std::string& function : functions) {
      for (const int occurrence : {0, 1, 2, 5}) {
        SCOPED_TRACE(function + " " + std::to_string(occurrence));
        MockGpuWorld mock(1, 2);
        mock.machine.plant(0, function, occurrence);
        TensorProgram program;
        try {
          program.run(*mock.cuda[0], image);
          if (!mock.machine.was_hit()) continue;
          // What only gives back what was made has nobody to tell.
          // And without any_image it is computed on the host.
          EXPECT_EQ(program.result, Floats(8, 3.5F));
          EXPECT_THAT(function, testing::AnyOf("cuModuleLoadData", "cuMemFreeAsync", "cuEventQuery",
                                               "cuEventRecord", "cuCtxPushCurrent",
                                               "cuThreadExchangeStreamCaptureMode"));
        } catch (const Error& error) {
          ++told;
          EXPECT_THAT(error.what(), testing::HasSubstr(function + " failed"));
          EXPECT_EQ(mock.machine.leaks(), "");
        }
        EXPECT_EQ(mock.machine.misuses(), "");
      }
    }
  }
  EXPECT_GT(told, 30);
}

TEST(MockGpuTensors, RefuseAStreamThatIsCaptured) {
  TwoGpus two;
  {
    GpuTensors tensors(two.gpus, 0);
    const Capture capture(*two.stream);
    const Outcome error = error_of<Error>([&] { tensors.follow(0, two.stream->handle); });
    EXPECT_EQ(error.code(), Errc::unsupported);
  }
  EXPECT_EQ(two.leaks(), "");
}

TEST(MockGpuTensors, DoNotWaitForAStreamThatIsStuckAtTheEnd) {
  TwoGpus two;
  Floats values(8, 0);
  Floats source(8, 5);
  two.stream->hold(true);
  two.stream->copy(values, source);
  const auto begun = std::chrono::steady_clock::now();
  {
    GpuTensors tensors(two.gpus, 0);
    tensors.follow(0, two.stream->handle);
    tensors.copy_in(tensors.make(DType::float32, 8), on_gpu(values));
    EXPECT_FALSE(tensors.finished(false));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  two.stream->copy(values, source);  // the caller uses its tensor again, in the order of its stream
  two.stream->hold(false);
  EXPECT_NE(two.mock.machine.leaks(), "");
  EXPECT_EQ(two.leaks(), "");
  EXPECT_EQ(two.mock.machine.misuses(), "");
}

}  // namespace
}  // namespace tutti::test
