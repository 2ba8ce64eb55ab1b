#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "mock_direct_ranks.hpp"

// Which streams tensors that go from GPU to GPU are on.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

TEST(MockDirect, FollowsTheCallersStreamAndWaitOrdersIt) {
  MockGpuWorld mock(2);
  run_checked(mock, 2, [&](ProcessGroup& world) {
    CallersStream stream(mock, world.rank());
    std::vector<float> source(400, static_cast<float>(world.rank() + 1));
    std::vector<float> values(400, 0);
    std::vector<float> result(400, 0);
    for (int i = 0; i < 3; ++i) {  // before the ranks agree, and after it
      stream.hold(true);
      stream.copy(values, source);  // not done yet when the operation is called
      Work work = reduce_on(world, on_gpu(values), stream.handle);
      EXPECT_FALSE(work.wait_for(5ms)) << "its input is not there";
      stream.hold(false);
      work.wait();
      stream.copy(result, values);  // behind it in the stream
      finish(reduce_on(world, on_gpu(source), stream.handle));
      EXPECT_EQ(result[0], 3.0F * static_cast<float>(1 << i));
    }
  });
}

TEST(MockDirect, TheFirstPartIsCopiedOnTheCallersStream) {
  MockGpuWorld mock(3);
  std::barrier held(3);
  run_checked(mock, 3, [&](ProcessGroup& world) {
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

}  // namespace
}  // namespace tutti::test
