#include "engine/completion_queue.hpp"

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

TEST(CompletionQueue, GivesEachCallbackOnceWithItsStatus) {
  CompletionQueue queue;
  const std::vector<Callback> callbacks(2);
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    queue.reserve();
    queue.registered();
  }
  EXPECT_EQ(queue.size(), 0U);
  queue.complete(callbacks, Outcome(Errc::aborted, "enough of it"));
  queue.reserve();
  queue.add({}, Outcome());
  EXPECT_EQ(queue.size(), 3U);
  const std::vector<Finished> taken = queue.take();
  ASSERT_EQ(taken.size(), 3U);
  EXPECT_EQ(taken[1].status.message(), "enough of it");
  EXPECT_TRUE(taken[2].status.ok());
  EXPECT_TRUE(queue.take().empty());
}

TEST(CompletionQueue, ATakenQueueHasRoomForWhatStillRuns) {
  CompletionQueue queue;
  const std::vector<Callback> callbacks(100);
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    queue.reserve();
    queue.registered();
  }
  EXPECT_TRUE(queue.take().empty());
  queue.complete(callbacks, Outcome());
  const std::vector<Finished> taken = queue.take();
  ASSERT_EQ(taken.size(), callbacks.size());
  EXPECT_EQ(taken.capacity(), callbacks.size()) << "reserved, and not grown at their end";
}

}  // namespace
}  // namespace tutti::engine
