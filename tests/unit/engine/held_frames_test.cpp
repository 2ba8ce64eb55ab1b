#include "engine/held_frames.hpp"

#include <gtest/gtest.h>

#include "engine/credit_account.hpp"

namespace tutti::engine {
namespace {

using namespace transport;

class HeldFramesTest : public testing::Test {
 protected:
  HeldFrames held_{std::pmr::get_default_resource()};
};

TEST_F(HeldFramesTest, OneControlFrameOfEachTypeAndOperationIsHeld) {
  for (const std::uint64_t end : {100, 300, 200})
    held_.push_control(encode(CreditFrame{7, 1, end}));
  held_.push_control(encode(CreditFrame{7, 2, 50}));
  held_.push_control(encode(WantFrame{7, 1}));
  EXPECT_EQ(held_.end() - held_.begin(), 3);
  const auto credit = held_.take(FrameType::credit, 7, 1);
  ASSERT_TRUE(credit);
  EXPECT_EQ(decode<CreditFrame>(*credit).end, 300U) << "the greatest includes the others";
  EXPECT_FALSE(held_.take(FrameType::credit, 7, 1));
  EXPECT_NE(held_.find(FrameType::want, 7, 1), held_.end());
  EXPECT_EQ(held_.find(FrameType::want, 7, 2), held_.end());
}

TEST_F(HeldFramesTest, MemoryIsBoundedAndEachOperationThatRunsAddsToTheBound) {
  FrameHeader large = encode(DataFrame{7, 1, 99, 0, {}, kMaxFramePayload, true});
  const auto fill = [&](int operations) {
    std::size_t pushed = 0;
    for (; held_.has_room(large, operations); ++pushed) held_.push(large, {});
    return pushed * HeldFrames::memory_of(large);
  };
  const std::size_t at_first = fill(0);
  EXPECT_GT(at_first, 8 * kMostEager.peer);
  EXPECT_LE(at_first, std::size_t{32} << 20);
  EXPECT_GE(fill(4), 4 * kMostEager.stream);
  held_.erase_if([](const HeldFrames::Frame&) { return true; });
  EXPECT_EQ(fill(0), at_first) << "what has left counts no more";
}

}  // namespace
}  // namespace tutti::engine
