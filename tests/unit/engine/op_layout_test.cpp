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
  int field = 0;
  for (const std::ptrdiff_t end :
       {end_of(op.state), end_of(op.agreement), end_of(op.seq), end_of(op.group), end_of(op.plan),
        end_of(op.region), end_of(op.program.pc), end_of(op.program.at), end_of(op.program.agreed),
        end_of(op.program.one_shot)})
    EXPECT_LE(end, 128) << "field " << field++ << " of those above";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&op) % 64, 0u);
}

}  // namespace
}  // namespace tutti::engine
