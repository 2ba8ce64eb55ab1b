#include <gmock/gmock.h>

#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "cuda/device.hpp"
#include "cuda/library.hpp"

// Collectives of NCCL that are captured into a CUDA graph, on a real GPU, with ranks as processes:
// tools/gpu_suite starts it, with TUTTI_BACKEND=cpu:native,cuda:nccl.
namespace tutti::test {
namespace {

/// The driver's functions for graphs, which the library does not need.
struct Graphs {
  using Handle = void*;
  int (*begin)(std::uintptr_t stream, int mode) = nullptr;
  int (*end)(std::uintptr_t stream, Handle* graph) = nullptr;
  int (*instantiate)(Handle* made, Handle graph, unsigned long long flags) = nullptr;
  int (*launch)(Handle made, std::uintptr_t stream) = nullptr;
  int (*destroy_made)(Handle made) = nullptr;
  int (*destroy)(Handle graph) = nullptr;
  int (*synchronize)(std::uintptr_t stream) = nullptr;

  [[nodiscard]] bool load() {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(driver, name));
      return function != nullptr;
    };
    return driver != nullptr && find(begin, "cuStreamBeginCapture_v2") &&
           find(end, "cuStreamEndCapture") && find(instantiate, "cuGraphInstantiateWithFlags") &&
           find(launch, "cuGraphLaunch") && find(destroy_made, "cuGraphExecDestroy") &&
           find(destroy, "cuGraphDestroy") && find(synchronize, "cuStreamSynchronize");
  }
};

class CudaGraph : public testing::Test {
 protected:
  void SetUp() override {
    Result<cuda::CudaApi*> driver = cuda::driver();
    int count = 0;
    if (!driver || (*driver)->init() != 0 || (*driver)->device_count(count) != 0 || count == 0 ||
        !graphs_.load())
      FAIL() << "there is no GPU";
    cuda_ = *driver;
    const char* const local = std::getenv("LOCAL_RANK");
    gpu_ = (local == nullptr ? 0 : std::atoi(local)) % count;
    Result<std::unique_ptr<cuda::Device>> device = cuda::Device::open(*cuda_, gpu_);
    device_ = std::move(device.value());
    ASSERT_EQ(cuda_->push_context(device_->context()), 0);
    ASSERT_EQ(cuda_->create_stream(stream_), 0);
  }
  void TearDown() override {
    if (cuda_ == nullptr) return;
    EXPECT_EQ(made_ == nullptr ? 0 : graphs_.destroy_made(made_), 0);
    EXPECT_EQ(graph_ == nullptr ? 0 : graphs_.destroy(graph_), 0);
    for (const cuda::Address one : memory_) (void)cuda_->free(one, stream_);
    (void)graphs_.synchronize(stream());
    (void)cuda_->destroy_stream(stream_);
    (void)cuda_->pop_context();
  }

  /// Captures what the calls do.
  void capture(int mode, const std::function<void()>& calls) {
    ASSERT_EQ(graphs_.begin(stream(), mode), 0);
    calls();
    ASSERT_EQ(graphs_.end(stream(), &graph_), 0);
    ASSERT_EQ(graphs_.instantiate(&made_, graph_, 0), 0);
  }
  [[nodiscard]] std::uintptr_t stream() const { return static_cast<std::uintptr_t>(stream_); }
  [[nodiscard]] TensorView tensor(std::size_t count) {
    cuda::Address address{};
    EXPECT_EQ(cuda_->allocate(address, count * sizeof(float), stream_), 0);
    memory_.push_back(address);
    return TensorView(reinterpret_cast<void*>(address), DType::float32, count,
                      {DeviceType::cuda, static_cast<std::int16_t>(gpu_)});
  }
  void fill(const TensorView& view, float value) {
    std::vector<float> values(view.count(), value);
    EXPECT_EQ(
        cuda_->copy(reinterpret_cast<cuda::Address>(view.data()),
                    reinterpret_cast<cuda::Address>(values.data()), view.size_bytes(), stream_),
        0);
    EXPECT_EQ(graphs_.synchronize(stream()), 0);
  }
  [[nodiscard]] std::vector<float> values_of(const TensorView& view) {
    std::vector<float> values(view.count());
    EXPECT_EQ(cuda_->copy(reinterpret_cast<cuda::Address>(values.data()),
                          reinterpret_cast<cuda::Address>(view.data()), view.size_bytes(), stream_),
              0);
    EXPECT_EQ(graphs_.synchronize(stream()), 0);
    return values;
  }

  Graphs graphs_;
  Graphs::Handle graph_ = nullptr;
  Graphs::Handle made_ = nullptr;
  cuda::CudaApi* cuda_ = nullptr;
  int gpu_ = 0;
  std::unique_ptr<cuda::Device> device_;
  cuda::Stream stream_{};
  std::vector<cuda::Address> memory_;
};

constexpr int kGlobal = 0;  // the default of torch.cuda.graph
constexpr int kRelaxed = 2;
constexpr std::size_t kCount = 1000;

class CudaGraphOfMode : public CudaGraph, public testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Modes, CudaGraphOfMode, testing::Values(kGlobal, 1, kRelaxed));

TEST_P(CudaGraphOfMode, RunsCollectivesAgainEachTimeItIsLaunched) {
  ProcessGroup world = init_process_group();
  const StreamGuard guard(stream());
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto n = static_cast<float>(ranks);
  const TensorView sum = tensor(kCount);
  const TensorView all = tensor(kCount * ranks);
  const TensorView mine = tensor(kCount);
  const auto collectives = [&] {
    world.all_reduce(sum).wait();
    world.all_gather(all, sum).wait();
    world.reduce_scatter(mine, all).wait();
  };
  fill(sum, 1);
  collectives();  // NCCL connects the ranks
  EXPECT_THAT(values_of(mine), testing::Each(n * n));
  fill(sum, 1);
  capture(GetParam(), collectives);
  EXPECT_THAT(values_of(sum), testing::Each(1.0F)) << "nothing has run";
  for (int launch = 1; launch <= 3; ++launch) {
    ASSERT_EQ(graphs_.launch(made_, stream()), 0);
    const float expected = std::pow(n, static_cast<float>(launch));
    EXPECT_THAT(values_of(sum), testing::Each(expected)) << launch;
    EXPECT_THAT(values_of(all), testing::Each(expected)) << launch;
    EXPECT_THAT(values_of(mine), testing::Each(expected * n)) << launch;
  }
  world.all_reduce(mine).synchronize();  // and calls that are not captured go on
  EXPECT_THAT(values_of(mine), testing::Each(std::pow(n, 5.0F)));
  world.barrier().wait();
}

TEST_F(CudaGraph, TakesTensorsWithStrides) {
  ProcessGroup world = init_process_group();
  const StreamGuard guard(stream());
  const TensorView all = tensor(2 * kCount);
  fill(all, 1);
  const std::int64_t shape[] = {kCount};
  const std::int64_t strides[] = {2};
  const TensorView half(all.data(), DType::float32, shape, strides, all.device());
  world.all_reduce(half).synchronize();
  capture(kGlobal, [&] { world.all_reduce(half).wait(); });
  float expected = static_cast<float>(world.size());
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_EQ(graphs_.launch(made_, stream()), 0);
    expected *= static_cast<float>(world.size());
    const std::vector<float> values = values_of(all);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], i % 2 == 0 ? expected : 1.0F) << i << ", launch " << launch;
  }
}

// NCCL's functions that end a communicator do not return while a graph has work of it.
TEST_F(CudaGraph, ThatIsAliveHoldsBackNeitherAnAbortNorTheEnd) {
  const auto begun = std::chrono::steady_clock::now();
  {
    ProcessGroup world = init_process_group();
    const StreamGuard guard(stream());
    const TensorView values = tensor(kCount);
    fill(values, 1);
    world.all_reduce(values).synchronize();
    capture(kGlobal, [&] { world.all_reduce(values).wait(); });
    ASSERT_EQ(graphs_.launch(made_, stream()), 0);
    EXPECT_THAT(values_of(values), testing::Each(static_cast<float>(world.size() * world.size())));
    world.barrier().wait();
    world.abort("a test");
    EXPECT_THROW(world.all_reduce(values).synchronize(), Error);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

TEST_F(CudaGraph, AMessageIsRefusedAndTheGroupGoesOn) {
  ProcessGroup world = init_process_group();
  const StreamGuard guard(stream());
  const TensorView values = tensor(kCount);
  fill(values, 1);
  world.all_reduce(values).synchronize();
  ASSERT_EQ(graphs_.begin(stream(), kRelaxed), 0);
  Work work = world.isend(values, 0);
  EXPECT_TRUE(work.done());
  EXPECT_THAT(std::string(work.error().message()), testing::HasSubstr("CUDA graph"));
  ASSERT_EQ(graphs_.end(stream(), &graph_), 0);
  world.all_reduce(values).synchronize();
  EXPECT_THAT(values_of(values), testing::Each(static_cast<float>(world.size() * world.size())));
}

}  // namespace
}  // namespace tutti::test
