#include "base/fnv.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string_view>

namespace tutti::base {
namespace {

// From the authors' page, http://www.isthe.com/chongo/tech/comp/fnv.
TEST(Fnv, GivesThePublishedNumbers) {
  EXPECT_EQ(fnv_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv_of("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv_of("foobar"), 0x85944171f73967e8U);
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(fnv32_of(bytes("")), 0x811c9dc5U);
  EXPECT_EQ(fnv32_of(bytes("a")), 0xe40c292cU);
  EXPECT_EQ(fnv32_of(bytes("foobar")), 0xbf9cf968U);
}

TEST(Fnv, ABytesHighBitIsNoSign) { EXPECT_EQ(fnv_of("\xff"), fnv_add(kFnvBasis, 0xff)); }

}  // namespace
}  // namespace tutti::base
