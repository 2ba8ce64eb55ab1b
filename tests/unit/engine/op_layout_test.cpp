#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "engine/group.hpp"

// The fields that a one-shot operation reads while it waits.
namespace tutti::engine {
namespace {

TEST(OpLayout, WhatIsPolledStandsInTheFirstTwoCacheLines) {
  const Op op{};
  const auto end_of = [&](const auto& field) {
    return reinterpret_cast<const std::byte*>(&field + 1) - reinterpret_cast<const std::byte*>(&op);
  };
  EXPECT_LE(end_of(op.state), 128);
  EXPECT_LE(end_of(op.agreement), 128);
  EXPECT_LE(end_of(op.seq), 128);
  EXPECT_LE(end_of(op.group), 128);
  EXPECT_LE(end_of(op.plan), 128);
  EXPECT_LE(end_of(op.region), 128);
  EXPECT_LE(end_of(op.program.pc), 128);
  EXPECT_LE(end_of(op.program.at), 128);
  EXPECT_LE(end_of(op.program.agreed), 128);
  EXPECT_LE(end_of(op.program.one_shot), 128);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&op) % 64, 0u);
}

}  // namespace
}  // namespace tutti::engine
