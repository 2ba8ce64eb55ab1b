#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "backend/native/worker_address.hpp"

namespace tutti::native {
namespace {

WorkerAddress a_worker_address() {
  WorkerAddress worker_address;
  worker_address.host.boot = "5f0e-11";
  worker_address.host.host_key = "5f0e-11/4026531840/left";
  worker_address.host.host_name = "node-1";
  worker_address.host.listener = "tutti-501-0";
  worker_address.host.network = 4026531840;
  worker_address.host.nonce = ~std::uint64_t{0};
  worker_address.host.pid = 501;
  worker_address.host.pid_namespace = 4026531836;
  worker_address.host.cpus = os::CpuSet::of({0, 3, 1500});
  worker_address.host.quota = os::CpuQuota{2, 77};
  worker_address.host.given_cpus = 5;
  worker_address.host.fence = true;
  worker_address.address = "[::1]:40001";
  worker_address.store_host = "fe80::1%far0";
  worker_address.settings = 7;
  return worker_address;
}

/// The address with one text in it replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = encode(a_worker_address());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(WorkerAddress, TravelsAsText) {
  Result<WorkerAddress> worker_address = decode(encode(a_worker_address()));
  ASSERT_TRUE(worker_address) << worker_address.status().message();
  EXPECT_EQ(worker_address->host.boot, "5f0e-11");
  EXPECT_EQ(worker_address->host.host_key, "5f0e-11/4026531840/left");
  EXPECT_EQ(worker_address->host.host_name, "node-1");
  EXPECT_EQ(worker_address->host.listener, "tutti-501-0");
  EXPECT_EQ(worker_address->host.network, 4026531840U);
  EXPECT_EQ(worker_address->host.nonce, ~std::uint64_t{0});
  EXPECT_EQ(worker_address->host.pid, 501);
  EXPECT_EQ(worker_address->host.pid_namespace, 4026531836U);
  EXPECT_EQ(worker_address->host.cpus, os::CpuSet::of({0, 3, 1500}));
  ASSERT_TRUE(worker_address->host.quota);
  EXPECT_EQ(worker_address->host.quota->cpus, 2);
  EXPECT_EQ(worker_address->host.quota->group, 77U);
  EXPECT_EQ(worker_address->host.given_cpus, 5);
  EXPECT_TRUE(worker_address->host.fence);
  EXPECT_EQ(worker_address->address, "[::1]:40001");
  EXPECT_EQ(worker_address->store_host, "fe80::1%far0")
      << "of an interface that this host need not have";
  EXPECT_EQ(worker_address->settings, 7U);
}

TEST(WorkerAddress, QuotaAndGivenCpusMayBeAbsent) {
  WorkerAddress worker_address = a_worker_address();
  worker_address.host.quota.reset();
  worker_address.host.given_cpus.reset();
  Result<WorkerAddress> read = decode(encode(worker_address));
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_FALSE(read->host.quota);
  EXPECT_FALSE(read->host.given_cpus);
}

TEST(WorkerAddress, NameOfAHostMayHoldAnyBytesAndIsShownOnOneLine) {
  WorkerAddress worker_address = a_worker_address();
  worker_address.host.host_name = "a\n\xff";
  Result<WorkerAddress> read = decode(encode(worker_address));
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->host.host_name, "a\\x0a\xef\xbf\xbd");
}

TEST(WorkerAddress, WhatIsOutOfItsRangeIsRefused) {
  const std::string long_text(kMostWorkerAddressText + 1, 'x');
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
    Result<WorkerAddress> worker_address = decode(changed(from, to));
    ASSERT_FALSE(worker_address) << from << " -> " << to;
    EXPECT_EQ(worker_address.status().code(), Errc::store);
    EXPECT_NE(worker_address.status().message().find("not understood: it"), std::string::npos)
        << worker_address.status().message();
    EXPECT_LT(worker_address.status().message().size(), 200U);
  }
}

TEST(WorkerAddress, IsNotReadWhereItIsTooLong) {
  std::string text = encode(a_worker_address());
  text.resize(kMostWorkerAddressBytes, ' ');
  EXPECT_TRUE(decode(text));
  text.push_back(' ');
  Result<WorkerAddress> worker_address = decode(text);
  ASSERT_FALSE(worker_address);
  EXPECT_NE(worker_address.status().message().find("32769 bytes"), std::string::npos);
}

}  // namespace
}  // namespace tutti::native
