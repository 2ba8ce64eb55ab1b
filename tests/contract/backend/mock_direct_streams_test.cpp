#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "mock_direct_ranks.hpp"

// Which streams tensors that go from GPU to GPU are on.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

TEST(MockDirect, TheFirstPartIsCopiedOnTheCallersStream) {
  MockGpuWorld mock(3);
  std::barrier held(3);
  run_direct(mock, [&](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    finish(reduce_on(world, on_gpu(values), 0));  // the ranks agree
    std::optional<Hold> out;                      // the stream on which results come
    if (world.rank() == 2) out.emplace(mock, 2);
    held.arrive_and_wait();
    Work work = reduce_on(world, on_gpu(values), 0);
    if (world.rank() == 2) {
      EXPECT_FALSE(work.wait_for(5ms));
    } else {
      finish(std::move(work));  // rank 2 has filled its slot
      EXPECT_EQ(values, std::vector<float>(8, 9));
    }
    held.arrive_and_wait();
    out.reset();
    if (world.rank() == 2) finish(std::move(work));
    EXPECT_EQ(values, std::vector<float>(8, 9));
  });
}

// The results of a call lie for a while in the slot that is filled two parts later.
TEST(MockDirect, NoSlotIsFilledBeforeResultsHaveLeftIt) {
  MockGpuWorld mock(2);
  run_direct(mock, [&](ProcessGroup& world) {
    CallersStream first(mock, world.rank());
    CallersStream second(mock, world.rank());
    CallersStream third(mock, world.rank());
    std::vector<float> values(8, 1);
    std::vector<float> more(8, 1);
    std::vector<float> wide(16, 1);
    const std::int64_t shape[] = {8};
    const std::int64_t strides[] = {2};
    const TensorView strided(wide.data(), DType::float32, shape, strides, kGpu);
    finish(reduce_on(world, on_gpu(values), first.handle));  // the ranks agree
    std::thread releases;
    if (world.rank() == 0) {
      auto out = std::make_unique<Hold>(mock, 0);  // the stream on which results come
      releases = std::thread([out = std::move(out)]() mutable {
        std::this_thread::sleep_for(50ms);
        out.reset();
      });
    }
    // Each on a stream of its own: only the library orders them.
    Work one = reduce_on(world, strided, first.handle);
    one.wait();
    Work two = reduce_on(world, on_gpu(values), second.handle);
    two.wait();
    Work three = reduce_on(world, on_gpu(more), third.handle);
    finish(std::move(three));
    if (releases.joinable()) releases.join();
    first.synchronize();
    second.synchronize();
    EXPECT_EQ(wide[14], 2);
    EXPECT_EQ(wide[15], 1);
    EXPECT_EQ(values, std::vector<float>(8, 4));
    EXPECT_EQ(more, std::vector<float>(8, 2));
  });
}

}  // namespace
}  // namespace tutti::test
