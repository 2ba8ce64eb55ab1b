#include <gtest/gtest.h>

#include "backend/native/host_cpus.hpp"

namespace tutti::native {
namespace {

using transport::shm::HostAddress;

HostAddress rank_on(os::CpuSet cpus, const char* boot = "here") {
  HostAddress worker_address;
  worker_address.boot = boot;
  worker_address.cpus = std::move(cpus);
  return worker_address;
}

int cpus_of(const std::vector<HostAddress>& ranks) {
  std::vector<const HostAddress*> all;
  for (const HostAddress& rank : ranks) all.push_back(&rank);
  return cpus_of_host(all);
}

HostAddress limited(HostAddress worker_address, int cpus, std::uint64_t group) {
  worker_address.quota = os::CpuQuota{cpus, group};
  return worker_address;
}

TEST(HostCpus, AreTheUnionOfTheRanks) {
  EXPECT_EQ(cpus_of({rank_on({})}), 1);
  EXPECT_EQ(cpus_of({rank_on(os::CpuSet::of({0})), rank_on(os::CpuSet::of({1}))}), 2);
  EXPECT_EQ(cpus_of({rank_on(os::CpuSet::of({1})), rank_on(os::CpuSet::of({1}))}), 1);
  EXPECT_EQ(cpus_of({rank_on(os::CpuSet::of({0, 1})), rank_on(os::CpuSet::of({1, 1030}))}), 3);
}

TEST(HostCpus, AreCappedByTheQuotaOfACgroup) {
  const HostAddress rank = rank_on(os::CpuSet::of({0, 1, 2, 3}));
  EXPECT_EQ(cpus_of({limited(rank, 2, 7), limited(rank, 2, 7)}), 2);
  EXPECT_EQ(cpus_of({limited(rank, 9, 7), limited(rank, 9, 7)}), 4);
}

TEST(HostCpus, QuotasOfSeveralCgroupsAddUp) {
  const HostAddress rank = rank_on(os::CpuSet::of({0, 1, 2, 3}));
  EXPECT_EQ(cpus_of({limited(rank, 1, 7), limited(rank, 1, 8), limited(rank, 1, 8)}), 2);
  EXPECT_EQ(cpus_of({limited(rank, 1, 7), rank}), 4) << "one rank has no quota";
}

TEST(HostCpus, LeastThatIsGivenCountsBeforeAll) {
  HostAddress one = rank_on(os::CpuSet::of({0}));
  HostAddress other = one;
  one.given_cpus = 6;
  EXPECT_EQ(cpus_of({one, other}), 6);
  other.given_cpus = 5;
  EXPECT_EQ(cpus_of({one, other}), 5);
}

TEST(HostCpus, LeastOfAllHostsIsToldByBootIds) {
  const os::CpuSet first = os::CpuSet::of({0});
  const os::CpuSet second = os::CpuSet::of({1});
  EXPECT_EQ(least_cpus({rank_on(first), rank_on(second)}), 2);
  EXPECT_EQ(least_cpus({rank_on(first), rank_on(second), rank_on(first, "there")}), 1);
}

}  // namespace
}  // namespace tutti::native
