#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <tutti/backend/group_access.hpp>
#include <tutti/launch.hpp>
#include <tutti/tutti.hpp>

#include "group/two_step_call.hpp"
#include "support/called_back.hpp"

// A call whose second step a GPU works on: nobody tells when it has finished.
namespace tutti {
namespace {

using namespace std::chrono_literals;

/// What a GPU does, as the tests say.
struct Gpu {
  std::atomic<bool> finished{false};
  std::atomic<int> looks{0};
};

class OnGpu final : public TwoStepCall {
 public:
  explicit OnGpu(Gpu& gpu) : gpu_(gpu) {
    movement_.kind = Kind::barrier;
    movement_.timeout = 60s;
    movement_.input = TensorView(nullptr, DType::uint8, 0, Device{DeviceType::cuda, 0});
  }
  [[nodiscard]] const Collective& movement() const noexcept override { return movement_; }
  [[nodiscard]] bool has_second_step() const noexcept override { return true; }
  [[nodiscard]] bool finish(bool may_wait) override {
    ++gpu_.looks;
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (may_wait && !gpu_.finished && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
    return gpu_.finished;
  }
  void keep_memory() noexcept override {}
  [[nodiscard]] std::string text() const override { return "a call"; }
  [[nodiscard]] std::string_view second_step() const noexcept override { return "its copy"; }
  [[nodiscard]] int rank() const noexcept override { return 0; }

 private:
  Gpu& gpu_;
  Collective movement_;
};

void in_world(const std::function<void(ProcessGroup& world, Gpu& gpu)>& body) {
  run_threads(1, [&](ProcessGroup& world) {
    Gpu gpu;
    body(world, gpu);
  });
}

Work begin(ProcessGroup& world, Gpu& gpu) {
  return submit_in_two_steps(GroupAccess::backend(world), std::make_unique<OnGpu>(gpu), {});
}

TEST(TwoStepCall, LooksWithoutATimeToWaitSeeTheEnd) {
  in_world([](ProcessGroup& world, Gpu& gpu) {
    Work work = begin(world, gpu);
    while (gpu.looks == 0) EXPECT_FALSE(work.wait_for(0ns));
    EXPECT_FALSE(work.wait_for(0ns));
    EXPECT_FALSE(work.wait_for(2ms));
    EXPECT_FALSE(work.done());
    gpu.finished = true;
    EXPECT_TRUE(work.wait_for(0ns));
    work.wait();
  });
}

TEST(TwoStepCall, DoneDoesNotWaitThoughACallbackIsToCome) {
  in_world([](ProcessGroup& world, Gpu& gpu) {
    Work work = begin(world, gpu);
    while (gpu.looks == 0) EXPECT_FALSE(work.done());
    std::atomic<int> called{0};
    work.on_done(test::counts_in(called));
    const auto until = std::chrono::steady_clock::now() + 20ms;
    while (std::chrono::steady_clock::now() < until) EXPECT_FALSE(work.done());
    EXPECT_EQ(called, 0);
    gpu.finished = true;
    work.wait();
    while (called == 0) std::this_thread::yield();
    EXPECT_EQ(called, 1);
  });
}

TEST(TwoStepCall, ACallbackComesThoughNobodyWaits) {
  in_world([](ProcessGroup& world, Gpu& gpu) {
    std::atomic<int> called{0};
    Work work = begin(world, gpu);
    work.on_done(test::counts_in(called));
    (void)work.done();
    work.detach();
    gpu.finished = true;
    while (called == 0) std::this_thread::yield();
    EXPECT_EQ(called, 1);
  });
}

TEST(TwoStepCall, WaitingEndsWhereAnotherThreadHasLooked) {
  in_world([](ProcessGroup& world, Gpu& gpu) {
    Work work = begin(world, gpu);
    while (gpu.looks == 0) (void)work.done();
    const std::jthread other([&] {
      std::this_thread::sleep_for(10ms);
      gpu.finished = true;
    });
    work.wait();
    EXPECT_TRUE(gpu.finished);
  });
}

}  // namespace
}  // namespace tutti
