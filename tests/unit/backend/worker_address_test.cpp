#include <gmock/gmock.h>

#include <tuple>
#include <utility>

#include "backend/native/dial_addresses.hpp"
#include "backend/native/worker_addresses.hpp"

namespace tutti::native {
namespace {

WorkerAddress a_worker_address() {
  WorkerAddress one;
  one.host.boot = "5f0e-11";
  one.host.host_key = "5f0e-11/4026531840/left";
  one.host.host_name = "node-1";
  one.host.listener = "rank-501-0";
  one.host.folder = "1a:77";
  one.host.network = 4026531840;
  one.host.nonce = ~std::uint64_t{0};
  one.host.pid = 501;
  one.host.pid_namespace = 4026531836;
  one.host.cpus = os::CpuSet::of({0, 3, 1500});
  one.host.quota = os::CpuQuota{2, 77};
  one.host.given_cpus = 5;
  one.host.fence = true;
  one.address = "[::1]:40001";
  one.store_host = "fe80::1%far0";  // of an interface that this host need not have
  one.settings = "TUTTI_TLS=1";
  return one;
}

/// What arrives where the address is sent.
WorkerAddress read_back(const WorkerAddress& sent) {
  Result<WorkerAddress> read = decode(encode(sent));
  EXPECT_TRUE(read) << read.status().message();
  return read ? *read : WorkerAddress();
}

TEST(WorkerAddress, ArrivesAsItWasSent) {
  const WorkerAddress sent = a_worker_address();
  const WorkerAddress read = read_back(sent);
  const auto of_host = [](const transport::shm::HostAddress& host) {
    return std::tie(host.boot, host.host_key, host.host_name, host.listener, host.folder,
                    host.network, host.nonce, host.pid, host.pid_namespace, host.cpus,
                    host.given_cpus, host.fence);
  };
  EXPECT_TRUE(of_host(read.host) == of_host(sent.host)) << encode(read);
  ASSERT_TRUE(read.host.quota);
  EXPECT_EQ(read.host.quota->cpus, 2);
  EXPECT_EQ(read.host.quota->group, 77U);
  EXPECT_EQ(std::tie(read.address, read.store_host, read.settings),
            std::tie(sent.address, sent.store_host, sent.settings));
}

TEST(WorkerAddress, QuotaAndGivenCpusMayBeAbsent) {
  WorkerAddress sent = a_worker_address();
  sent.host.quota.reset();
  sent.host.given_cpus.reset();
  const WorkerAddress read = read_back(sent);
  EXPECT_FALSE(read.host.quota);
  EXPECT_FALSE(read.host.given_cpus);
}

TEST(WorkerAddress, NameOfAHostMayHoldAnyBytesAndIsShownOnOneLine) {
  WorkerAddress sent = a_worker_address();
  sent.host.host_name = "a\n\xff";
  EXPECT_EQ(read_back(sent).host.host_name, "a\\x0a\\xff");
}

void expect_refused(const std::string& text, const std::string& what) {
  const Result<WorkerAddress> read = decode(text);
  ASSERT_FALSE(read) << what;
  EXPECT_EQ(read.status().code(), Errc::store);
  EXPECT_NE(read.status().message().find("not understood: it"), std::string::npos)
      << read.status().message();
  EXPECT_LT(read.status().message().size(), 200U);
}

TEST(WorkerAddress, WhatIsOutOfItsRangeIsRefused) {
  const std::string long_text(kMostWorkerAddressText + 1, 'x');
  const std::pair<const char*, void (*)(WorkerAddress&)> cases[] = {
      {"no process", [](WorkerAddress& one) { one.host.pid = 0; }},
      {"a negative process", [](WorkerAddress& one) { one.host.pid = -1; }},
      {"negative CPUs", [](WorkerAddress& one) { one.host.given_cpus = -5; }},
      {"a negative quota",
       [](WorkerAddress& one) {
         one.host.quota = os::CpuQuota{-2, 1};
       }},
      {"a name for an address", [](WorkerAddress& one) { one.address = "here:40001"; }},
      {"a name for the store", [](WorkerAddress& one) { one.store_host = "here"; }},
      {"a path", [](WorkerAddress& one) { one.host.listener = "../rank-501-0"; }},
  };
  for (const auto& [what, change] : cases) {
    WorkerAddress one = a_worker_address();
    change(one);
    expect_refused(encode(one), what);
  }
  for (std::string WorkerAddress::*const text :
       {&WorkerAddress::address, &WorkerAddress::store_host, &WorkerAddress::settings}) {
    WorkerAddress one = a_worker_address();
    one.*text = long_text;
    expect_refused(encode(one), "a long text");
  }
}

TEST(WorkerAddress, OfAnotherFormatIsRefused) {
  const std::string text = encode(a_worker_address());
  for (std::size_t size = 0; size < text.size(); ++size)
    expect_refused(text.substr(0, size), "cut at " + std::to_string(size));
  expect_refused(text + "x", "longer");
  std::string newer = text;
  ++newer[8];  // behind the length of the beginning
  expect_refused(newer, "another version");
  std::string cpus = text;
  cpus[cpus.find("1000")] = 'g';
  expect_refused(cpus, "no set of CPUs");
  // A beginning that was refused is not taken for one that was read.
  WorkerAddressReader reader;
  for (const bool good : {true, false, false, true, true})
    EXPECT_EQ(reader.read(good ? text : cpus).ok(), good);
}

TEST(WorkerAddress, IsNotReadWhereItIsTooLong) {
  const Result<WorkerAddress> read = decode(std::string(kMostWorkerAddressBytes + 1, ' '));
  ASSERT_FALSE(read);
  EXPECT_NE(read.status().message().find("32769 bytes"), std::string::npos);
}

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Job = std::vector<WorkerAddress>;

WorkerAddress rank_of(int pid, const std::string& boot, std::uint64_t network,
                      const std::string& address, const std::string& store_host) {
  WorkerAddress one;
  one.host.boot = boot;
  one.host.network = network;
  one.host.host_name = "host-" + boot;
  one.host.pid = pid;
  one.address = address;
  one.store_host = store_host;
  return one;
}

/// Ranks 0 and 1 have reached the store by loopback, rank 2 elsewhere at 10.0.0.1.
Job a_job() {
  return {rank_of(1, "a", 1, "0.0.0.0:1000", "127.0.0.1"), rank_of(2, "a", 1, "[::]:1001", "::1"),
          rank_of(3, "b", 1, "10.0.0.2:1002", "10.0.0.1")};
}

std::vector<std::string> dialled_by(const Job& job, int rank) {
  Result<std::vector<std::string>> addresses = dial_addresses(job, rank);
  EXPECT_TRUE(addresses) << addresses.status().message();
  return addresses ? *addresses : std::vector<std::string>{};
}

TEST(DialAddresses, OfTheStoresHostAreWhereEachHasReachedIt) {
  EXPECT_THAT(dialled_by(a_job(), 0),
              ElementsAre("127.0.0.1:1000", "127.0.0.1:1001", "10.0.0.2:1002"));
  EXPECT_THAT(dialled_by(a_job(), 2),
              ElementsAre("10.0.0.1:1000", "10.0.0.1:1001", "10.0.0.2:1002"));
}

TEST(DialAddresses, MayDifferFromRankToRank) {
  Job job = a_job();
  job.push_back(rank_of(4, "c", 1, "[fd00::3]:1003", "fd00::1"));
  EXPECT_THAT(dialled_by(job, 3),
              ElementsAre("[fd00::1]:1000", "[fd00::1]:1001", "10.0.0.2:1002", "[fd00::3]:1003"));
}

TEST(DialAddresses, OnOneHostMayBeOfTheLoopback) {
  const Job job = {rank_of(1, "a", 1, "127.0.0.1:1000", "127.0.0.1"),
                   rank_of(2, "a", 1, "127.0.0.1:1001", "127.0.0.1")};
  EXPECT_THAT(dialled_by(job, 1), ElementsAre("127.0.0.1:1000", "127.0.0.1:1001"));
}

/// Every rank is told the same.
void expect_refused(const Job& job, const std::string& unreachable, const std::string& by) {
  for (int rank = 0; rank < static_cast<int>(job.size()); ++rank) {
    const Outcome status = dial_addresses(job, rank).status();
    EXPECT_EQ(status.code(), Errc::refused);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the ranks are on several hosts, and " + unreachable),
                      HasSubstr("cannot be reached from that of " + by),
                      HasSubstr("all that it knows of its own address is the loopback"),
                      HasSubstr("set MASTER_ADDR to"), HasSubstr("TUTTI_SOCKET_IFNAME")));
  }
}

TEST(DialAddresses, OfTheLoopbackAreRefusedOnSeveralHosts) {
  Job job = a_job();
  job[1].address = "127.0.0.1:1001";
  expect_refused(job, "rank 1 (host-a, pid 2)", "rank 2 (host-b, pid 3)");
}

TEST(DialAddresses, OfNetworkNamespacesAreThoseOfHosts) {
  Job job = a_job();
  job[1].host.network = 2;  // it has reached the store by a loopback of its own
  expect_refused(job, "rank 0 (host-a, pid 1)", "rank 1 (host-a, pid 2)");
}

TEST(DialAddresses, OfTheStoresHostNeedAWayToTheStore) {
  Job job = a_job();
  for (const char* const nowhere : {"", "127.0.0.1"}) {
    job[2].store_host = nowhere;
    expect_refused(job, "rank 0 (host-a, pid 1)", "rank 2 (host-b, pid 3)");
  }
  job[2].store_host = "fe80::1%eth77";  // an interface that is not here is no reason
  EXPECT_TRUE(dial_addresses(job, 0));
}

TEST(DialAddresses, AreEmptyWhereARankTellsNone) {
  const Job job = {rank_of(1, "a", 1, "", ""), rank_of(2, "a", 1, "127.0.0.1:7", "")};
  EXPECT_THAT(dialled_by(job, 1), ElementsAre("", "127.0.0.1:7"));
}

/// As rank 0 reads it.
Result<WorkerAddresses> read_by_first(const Job& job, Config::TransportChoice transport = {}) {
  std::vector<std::string> texts;
  for (const WorkerAddress& one : job) texts.push_back(encode(one));
  JobIdentity identity;
  identity.size = static_cast<int>(job.size());
  return WorkerAddresses::read(texts, job.front(), identity, transport);
}

/// Ranks 0 and 1 on one host, rank 2 in another pid namespace and network of that machine, rank 3
/// elsewhere.
Job of_three_hosts() {
  Job job;
  for (int pid = 1; pid <= 4; ++pid) {
    job.push_back(rank_of(pid, pid < 4 ? "a" : "b", 1, "", ""));
    job.back().host.host_key = pid < 3 ? "a" : pid < 4 ? "a/2" : "b";
    job.back().host.pid_namespace = pid == 3 ? 6 : 5;
    job.back().host.cpus = os::CpuSet::of({static_cast<std::size_t>(pid), 9});
    job.back().host.fence = pid != 4;
  }
  return job;
}

TEST(WorkerAddresses, SayWhichRanksShareAHostAndAMachine) {
  Result<WorkerAddresses> all = read_by_first(of_three_hosts());
  ASSERT_TRUE(all) << all.status().message();
  EXPECT_THAT(all->local, ElementsAre(0, 1));
  EXPECT_THAT(all->world.host_of, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(all->world.local_of, ElementsAre(0, 1, -1, -1));
  EXPECT_THAT(all->world.pids, ElementsAre(1, 2, 0, 0)) << "of our pid namespace only";
  EXPECT_EQ(all->world.whereabouts[3], "host-b, pid 4");
  EXPECT_EQ(all->world.cpus, 2) << "the least of a machine";
  EXPECT_EQ(all->driver.cpus, 4);
  EXPECT_EQ(all->driver.ranks_on_host, 3) << "they share our CPUs";
  EXPECT_TRUE(all->driver.remote);
  EXPECT_FALSE(all->driver.sleepers_fence);
  EXPECT_THAT(all->driver.processes, ElementsAre()) << "we cannot see all of them";
}

TEST(WorkerAddresses, OfOneHostAreAllSeen) {
  Job job = of_three_hosts();
  job.resize(2);
  Result<WorkerAddresses> all = read_by_first(job, Config::TransportChoice::shm);
  ASSERT_TRUE(all) << all.status().message();
  EXPECT_THAT(all->driver.processes, ElementsAre(1, 2));
  EXPECT_FALSE(all->driver.remote);
  EXPECT_TRUE(all->driver.sleepers_fence);
}

TEST(WorkerAddresses, SeparateAllRanksWhereOnlyTcpIsUsed) {
  Result<WorkerAddresses> all = read_by_first(of_three_hosts(), Config::TransportChoice::tcp);
  ASSERT_TRUE(all) << all.status().message();
  EXPECT_THAT(all->world.host_of, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(all->local, ElementsAre(0));
  EXPECT_EQ(all->driver.ranks_on_host, 3);
}

TEST(WorkerAddresses, OfSeveralHostsAreNoneForSharedMemoryAlone) {
  const Outcome status = read_by_first(of_three_hosts(), Config::TransportChoice::shm).status();
  EXPECT_EQ(status.code(), Errc::unsupported);
  EXPECT_EQ(status.message(), "TUTTI_TRANSPORT=shm, but the ranks are on 3 hosts");
}

TEST(WorkerAddresses, WithOtherSettingsAreRefused) {
  Job job = of_three_hosts();
  for (WorkerAddress& one : job) one.settings = "TUTTI_TLS=1\n";
  job[2].settings = "TUTTI_TLS=0\n";
  const Outcome status = read_by_first(job).status();
  EXPECT_EQ(status.code(), Errc::disagreement);
  EXPECT_EQ(status.message(),
            "settings differ: TUTTI_TLS is '1' on rank 0 and '0' on rank 2; give all ranks the "
            "same");
}

TEST(WorkerAddresses, ThatCannotBeReadNameTheirRank) {
  Job job = of_three_hosts();
  job[1].host.pid = 0;
  const Outcome status = read_by_first(job).status();
  EXPECT_EQ(status.code(), Errc::store);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("rank 1 cannot be reached: "));
}

}  // namespace
}  // namespace tutti::native
