#include "base/number.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace tutti::base {
namespace {

TEST(Number, ARealNumberIsOneInTheLocaleOfC) {
  EXPECT_EQ(real_number(" 0.5\t"), 0.5);
  EXPECT_EQ(real_number("-1e+3"), -1000);
  EXPECT_EQ(real_number("inf"), std::numeric_limits<double>::infinity());
  for (const auto* text : {"", " ", "+1", "0x1", "0,5", "1e999", "1e-999", "1s", "- 1", "."}) {
    EXPECT_EQ(real_number(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tutti::base
