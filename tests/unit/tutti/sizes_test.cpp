#include "apps/bench/sizes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace tutti::bench {
namespace {

TEST(Sizes, UnitsArePowersOf1024) {
  EXPECT_EQ(parse_size("8"), 8U);
  EXPECT_EQ(parse_size("4K"), 4096U);
  EXPECT_EQ(parse_size("4k"), 4096U);
  EXPECT_EQ(parse_size("256KiB"), 256U << 10);
  EXPECT_EQ(parse_size("64MB"), 64U << 20);
  EXPECT_EQ(parse_size("1G"), 1U << 30);
}

TEST(Sizes, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "K", "-8", "8x", "8KX", "8 K", "1.5M", "2G", "99999999999999999999"})
    EXPECT_THROW(parse_size(text), std::invalid_argument) << text;
}

TEST(Sizes, TextIsReadBack) {
  for (const std::uint64_t bytes : {0ULL, 8ULL, 1000ULL, 1024ULL, 1536ULL, 4ULL << 20, 1ULL << 30})
    EXPECT_EQ(parse_size(size_text(bytes)), bytes);
  EXPECT_EQ(size_text(4096), "4K");
  EXPECT_EQ(size_text(1000), "1000");
}

TEST(Sizes, RangeIncludesItsEnd) {
  EXPECT_EQ(size_range(8, 512, 8), (std::vector<std::uint64_t>{8, 64, 512}));
  EXPECT_EQ(size_range(8, 511, 8), (std::vector<std::uint64_t>{8, 64}));
  EXPECT_THROW(size_range(0, 8, 2), std::invalid_argument);
  EXPECT_THROW(size_range(16, 8, 2), std::invalid_argument);
  EXPECT_THROW(size_range(8, 16, 1), std::invalid_argument);
}

}  // namespace
}  // namespace tutti::bench
