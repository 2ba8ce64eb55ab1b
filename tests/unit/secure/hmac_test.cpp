#include "secure/hmac.hpp"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "support/hex.hpp"

namespace tutti::secure {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// The test cases of RFC 4231, section 4 (number 5 is about shortened output).
TEST(Hmac, GivesTheDigestsOfRfc4231) {
  using Bytes = std::vector<std::byte>;
  const auto repeat = [](int value, std::size_t count) {
    return Bytes(count, static_cast<std::byte>(value));
  };
  Bytes ascending;
  for (int i = 1; i <= 25; ++i) ascending.push_back(static_cast<std::byte>(i));
  const std::vector<std::tuple<Bytes, Bytes, std::string>> vectors = {
      {repeat(0x0b, 20), bytes_of("Hi There"),
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {bytes_of("Jefe"), bytes_of("what do ya want for nothing?"),
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {repeat(0xaa, 20), repeat(0xdd, 50),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {ascending, repeat(0xcd, 50),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {repeat(0xaa, 131), bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"),
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {repeat(0xaa, 131),
       bytes_of("This is a test using a larger than block-size key and a larger than block-size "
                "data. The key needs to be hashed before being used by the HMAC algorithm."),
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
      // Not of the RFC: no key and no data, a known value.
      {{}, {}, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
  };
  for (const auto& [key, data, expected] : vectors) {
    const auto digest = hmac_sha256(key, data);
    ASSERT_TRUE(digest.ok()) << digest.status().message();
    EXPECT_EQ(test::hex(digest.value()), expected);
  }
}

TEST(EqualConstantTime, SeesEveryDifferentBit) {
  const auto a = bytes_of("0123456789abcdef0123456789abcdef");
  EXPECT_TRUE(equal_constant_time(a, a));
  EXPECT_TRUE(equal_constant_time({}, {}));
  EXPECT_FALSE(equal_constant_time(a, std::span(a).first(31)));
  for (std::size_t bit = 0; bit < a.size() * 8; ++bit) {
    auto b = a;
    b[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(equal_constant_time(a, b)) << bit;
  }
}

TEST(RandomBytes, FillsAllAndDoesNotRepeat) {
  // 1000 bytes hold every value with a chance of 1 - 256 * (255/256)^1000 > 0.99 only; 20,000 bytes
  // miss one with less than 1e-31.
  std::vector<std::byte> bytes(20000);
  ASSERT_TRUE(random_bytes(bytes).ok());
  EXPECT_EQ(std::set<std::byte>(bytes.begin(), bytes.end()).size(), 256U);
  std::vector<std::byte> more(20000);
  ASSERT_TRUE(random_bytes(more).ok());
  EXPECT_NE(bytes, more);
  EXPECT_TRUE(random_bytes({}).ok());
}

}  // namespace
}  // namespace tutti::secure
