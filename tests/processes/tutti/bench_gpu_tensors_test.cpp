// Tensors of GPUs that `tutti bench` measures with, on a driver whose GPUs are memory of the host.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <tutti/launch.hpp>

#include "apps/bench/joined_job.hpp"
#include "apps/bench/peers/gpu_tensors.hpp"
#include "apps/bench/peers/performer.hpp"
#include "support/variable.hpp"

namespace tutti::bench {
namespace {

constexpr std::size_t kBeyondCaches = std::size_t{128} << 20;

class BenchGpuTensors : public testing::Test {
  const test::Variable driver_{"TUTTI_CUDA_LIBRARY", MOCK_CUDA_DRIVER};
};

struct Copy {
  std::uintptr_t to = 0;
  std::uintptr_t from = 0;
  std::size_t bytes = 0;
  /// Does it read or write that byte?
  [[nodiscard]] bool touches(const void* byte) const {
    const auto at = reinterpret_cast<std::uintptr_t>(byte);
    return at - to < bytes || at - from < bytes;
  }
};

Copy last_copy() {
  void* const driver = ::dlopen(MOCK_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
  using Ask = int (*)(std::uintptr_t*, std::uintptr_t*, std::size_t*);
  Copy copy;
  reinterpret_cast<Ask>(::dlsym(driver, "tuttiTestLastCopy"))(&copy.to, &copy.from, &copy.bytes);
  ::dlclose(driver);
  return copy;
}

TEST_F(BenchGpuTensors, AreColdForEachCall) {
  for (const std::size_t count : {2, 2048, 1 << 18}) {
    std::vector<float> host(count);
    std::iota(host.begin(), host.end(), 1.0F);
    GpuTensors tensors(0);
    tensors.use({}, std::as_writable_bytes(std::span(host)));
    constexpr std::uint64_t kCalls = 150;
    tensors.upload(kCalls);
    const Copy last = last_copy();
    EXPECT_GE(2 * last.bytes, kBeyondCaches) << "read and written before the first call";
    std::set<void*> places;
    std::uint64_t calls = 0;
    for (;; ++calls) {
      tensors.next();
      const TensorView view = tensors.view(host.data(), count);
      if (!places.insert(view.data()).second) break;
      ASSERT_FALSE(last.touches(view.data()));
      // A GPU's memory is the host's.
      const auto* const data = static_cast<const float*>(view.data());
      if (calls >= kCalls) continue;
      ASSERT_TRUE(std::equal(host.begin(), host.end(), data)) << calls;
    }
    const std::size_t pitch = std::max<std::size_t>(count * sizeof(float), 256);
    EXPECT_GE(calls * pitch, kBeyondCaches) << "before a copy is used again";
  }
}

/// Counts what it is given.
class Counting final : public Library {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string name() const override { return "counting"; }
  void call(Operation /*operation*/, const Buffers& /*buffers*/) override {}
  [[nodiscard]] bool has_memory() const override { return true; }
  void upload(std::uint64_t calls) override { given.push_back(calls); }
  std::vector<std::uint64_t> given;
};

TEST_F(BenchGpuTensors, AreGivenOnceForAllCallsOfATask) {
  for (const Task task : {Task::loop, Task::sync}) {
    Counting library;
    Performer performer(library);
    const auto broadcast = number_of(Operation::broadcast);
    const Command command{
        .task = task, .operation = broadcast, .bytes = 8, .warmup = 2, .iterations = 5};
    EXPECT_EQ(performer.obey(command).ok, 1U);
    EXPECT_EQ(library.given, std::vector<std::uint64_t>{7});
  }
}

// Ranks that share a GPU would each measure a part of its rate.
TEST_F(BenchGpuTensors, OneRankMeasuresTheRateOfCopies) {
  run_threads(3, [](ProcessGroup& world) {
    JoinedJob job(world, DeviceType::cuda);
    EXPECT_EQ(job.version().find(", copies ") != std::string::npos, job.rank() == 0)
        << job.version();
    if (job.rank() != 0) job.follow();
  });
}

}  // namespace
}  // namespace tutti::bench
