#include "engine/scratch.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace tutti::engine {
namespace {

constexpr std::size_t kLarge = 4 * ScratchPool::kSmall;

TEST(ScratchPool, WhatIsGivenIsTakenAgain) {
  ScratchPool pool;
  Scratch one;
  pool.fit(one, kLarge);
  ASSERT_GE(one.size(), kLarge);
  const std::byte* const memory = one.data();
  pool.give(std::move(one));
  EXPECT_EQ(pool.kept(), kLarge);
  Scratch other;
  pool.fit(other, kLarge - 1);
  EXPECT_EQ(other.data(), memory);
  EXPECT_EQ(pool.kept(), 0U);
}

TEST(ScratchPool, WhatIsTooSmallIsNotTaken) {
  ScratchPool pool;
  pool.give(Scratch(kLarge));
  Scratch larger;
  pool.fit(larger, kLarge + 1);
  EXPECT_GE(larger.size(), kLarge + 1);
  EXPECT_EQ(pool.kept(), kLarge);
}

TEST(ScratchPool, WhatWasThereIsGivenForALargerOne) {
  ScratchPool pool;
  Scratch one(kLarge);
  pool.fit(one, 2 * kLarge);
  EXPECT_GE(one.size(), 2 * kLarge);
  EXPECT_EQ(pool.kept(), kLarge);
}

TEST(ScratchPool, KeepsABoundedAmountAndOfThatTheNewest) {
  ScratchPool pool;
  pool.give(Scratch(ScratchPool::kMostKept + 1));  // a ring's, of the length of a tensor
  EXPECT_EQ(pool.kept(), 0U);
  pool.give(Scratch(ScratchPool::kSmall));  // its slot would have kept it
  EXPECT_EQ(pool.kept(), 0U);
  for (std::size_t i = 0; i < 100; ++i) {
    pool.give(Scratch(kLarge + i));
    EXPECT_LE(pool.kept(), ScratchPool::kMostKept);
  }
  Scratch newest;
  pool.fit(newest, kLarge);
  EXPECT_EQ(newest.size(), kLarge + 99);
  pool.give(std::move(newest));
  pool.give(Scratch(ScratchPool::kMostKept));
  EXPECT_EQ(pool.kept(), ScratchPool::kMostKept);
}

}  // namespace
}  // namespace tutti::engine
