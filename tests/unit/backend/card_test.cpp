#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "backend/native/card.hpp"

namespace tutti::native {
namespace {

Card a_card() {
  Card card;
  card.host.boot = "5f0e-11";
  card.host.host_key = "5f0e-11/4026531840/left";
  card.host.host_name = "node-1";
  card.host.listener = "tutti-501-0";
  card.host.network = 4026531840;
  card.host.nonce = ~std::uint64_t{0};
  card.host.pid = 501;
  card.host.pid_namespace = 4026531836;
  card.host.cpus = os::CpuSet::of({0, 3, 1500});
  card.host.quota = os::CpuQuota{2, 77};
  card.host.given_cpus = 5;
  card.host.fence = true;
  card.address = "[::1]:40001";
  card.store_host = "fe80::1%far0";
  card.settings = 7;
  return card;
}

/// The card with one text in it replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = encode(a_card());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Card, TravelsAsText) {
  Result<Card> card = decode(encode(a_card()));
  ASSERT_TRUE(card) << card.status().message();
  EXPECT_EQ(card->host.boot, "5f0e-11");
  EXPECT_EQ(card->host.host_key, "5f0e-11/4026531840/left");
  EXPECT_EQ(card->host.host_name, "node-1");
  EXPECT_EQ(card->host.listener, "tutti-501-0");
  EXPECT_EQ(card->host.network, 4026531840U);
  EXPECT_EQ(card->host.nonce, ~std::uint64_t{0});
  EXPECT_EQ(card->host.pid, 501);
  EXPECT_EQ(card->host.pid_namespace, 4026531836U);
  EXPECT_EQ(card->host.cpus, os::CpuSet::of({0, 3, 1500}));
  ASSERT_TRUE(card->host.quota);
  EXPECT_EQ(card->host.quota->cpus, 2);
  EXPECT_EQ(card->host.quota->group, 77U);
  EXPECT_EQ(card->host.given_cpus, 5);
  EXPECT_TRUE(card->host.fence);
  EXPECT_EQ(card->address, "[::1]:40001");
  EXPECT_EQ(card->store_host, "fe80::1%far0") << "of an interface that this host need not have";
  EXPECT_EQ(card->settings, 7U);
}

TEST(Card, QuotaAndGivenCpusMayBeAbsent) {
  Card card = a_card();
  card.host.quota.reset();
  card.host.given_cpus.reset();
  Result<Card> read = decode(encode(card));
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_FALSE(read->host.quota);
  EXPECT_FALSE(read->host.given_cpus);
}

TEST(Card, NameOfAHostMayHoldAnyBytesAndIsShownOnOneLine) {
  Card card = a_card();
  card.host.host_name = "a\n\xff";
  Result<Card> read = decode(encode(card));
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->host.host_name, "a\\x0a\xef\xbf\xbd");
}

TEST(Card, WhatIsOutOfItsRangeIsRefused) {
  const std::string long_text(kMostCardText + 1, 'x');
  const std::pair<std::string, std::string> cases[] = {
      {"{", "["},
      {"\"pid\":501", "\"pid\":0"},
      {"\"pid\":501", "\"pid\":-1"},
      {"\"pid\":501", "\"pid\":1e300"},
      {"\"pid\":501", "\"pid\":4294967797"},
      {"\"pid\":501", "\"pid\":\"501\""},
      {"\"pid\":501", "\"place\":501"},
      {"\"pid_namespace\":4026531836", "\"pid_namespace\":-1"},
      {"\"cpus\":\"1000", "\"cpus\":\"g000"},
      {"\"cpus\":\"1000", "\"cpus\":\"" + std::string(2048, '0') + "1000"},
      {"\"given_cpus\":5", "\"given_cpus\":-5"},
      {"\"quota\":2", "\"quota\":2147483648"},
      {"\"quota_group\":77", "\"quota_group\":\"77\""},
      {"\"fence\":true", "\"fence\":1"},
      {"\"nonce\":18446744073709551615", "\"nonce\":18446744073709551616"},
      {"\"settings\":7", "\"settings\":null"},
      {"\"network\":4026531840", "\"network\":0.5"},
      {"[::1]:40001", "here:40001"},
      {"fe80::1%far0", "here"},
      {"\"store_host\":\"fe80::1%far0\"", "\"store_host\":7"},
      {"node-1", long_text},
      {"5f0e-11/4026531840/left", long_text},
  };
  for (const auto& [from, to] : cases) {
    Result<Card> card = decode(changed(from, to));
    ASSERT_FALSE(card) << from << " -> " << to;
    EXPECT_EQ(card.status().code(), Errc::store);
    EXPECT_NE(card.status().message().find("not understood: it"), std::string::npos)
        << card.status().message();
    EXPECT_LT(card.status().message().size(), 200U);
  }
}

TEST(Card, IsNotReadWhereItIsTooLong) {
  std::string text = encode(a_card());
  text.resize(kMostCardBytes, ' ');
  EXPECT_TRUE(decode(text));
  text.push_back(' ');
  Result<Card> card = decode(text);
  ASSERT_FALSE(card);
  EXPECT_NE(card.status().message().find("32769 bytes"), std::string::npos);
}

}  // namespace
}  // namespace tutti::native
