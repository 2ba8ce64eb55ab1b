#include "backend/native/dial_addresses.hpp"

#include <gmock/gmock.h>

namespace tutti::native {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

WorkerAddress worker_address_of(int pid, const std::string& boot, std::uint64_t network,
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
std::vector<WorkerAddress> a_job() {
  return {worker_address_of(1, "a", 1, "0.0.0.0:1000", "127.0.0.1"),
          worker_address_of(2, "a", 1, "[::]:1001", "::1"),
          worker_address_of(3, "b", 1, "10.0.0.2:1002", "10.0.0.1")};
}

std::vector<std::string> dialled_by(const std::vector<WorkerAddress>& worker_addresses, int rank) {
  Result<std::vector<std::string>> addresses = dial_addresses(worker_addresses, rank);
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
  std::vector<WorkerAddress> worker_addresses = a_job();
  worker_addresses.push_back(worker_address_of(4, "c", 1, "[fd00::3]:1003", "fd00::1"));
  EXPECT_THAT(dialled_by(worker_addresses, 3),
              ElementsAre("[fd00::1]:1000", "[fd00::1]:1001", "10.0.0.2:1002", "[fd00::3]:1003"));
}

TEST(DialAddresses, OnOneHostMayBeOfTheLoopback) {
  const std::vector<WorkerAddress> worker_addresses = {
      worker_address_of(1, "a", 1, "127.0.0.1:1000", "127.0.0.1"),
      worker_address_of(2, "a", 1, "127.0.0.1:1001", "127.0.0.1")};
  EXPECT_THAT(dialled_by(worker_addresses, 1), ElementsAre("127.0.0.1:1000", "127.0.0.1:1001"));
}

/// Every rank is told the same.
void expect_refused(const std::vector<WorkerAddress>& worker_addresses,
                    const std::string& unreachable, const std::string& by) {
  for (int rank = 0; rank < static_cast<int>(worker_addresses.size()); ++rank) {
    const Status status = dial_addresses(worker_addresses, rank).status();
    EXPECT_EQ(status.code(), Errc::refused);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the ranks are on several hosts, and " + unreachable),
                      HasSubstr("cannot be reached from that of " + by),
                      HasSubstr("all that it knows of its own address is the loopback"),
                      HasSubstr("set MASTER_ADDR to"), HasSubstr("TUTTI_SOCKET_IFNAME")));
  }
}

TEST(DialAddresses, OfTheLoopbackAreRefusedOnSeveralHosts) {
  std::vector<WorkerAddress> worker_addresses = a_job();
  worker_addresses[1].address = "127.0.0.1:1001";
  expect_refused(worker_addresses, "rank 1 (host-a, pid 2)", "rank 2 (host-b, pid 3)");
}

TEST(DialAddresses, OfNetworkNamespacesAreThoseOfHosts) {
  std::vector<WorkerAddress> worker_addresses = a_job();
  worker_addresses[1].host.network = 2;  // it has reached the store by a loopback of its own
  expect_refused(worker_addresses, "rank 0 (host-a, pid 1)", "rank 1 (host-a, pid 2)");
}

TEST(DialAddresses, OfTheStoresHostNeedAWayToTheStore) {
  std::vector<WorkerAddress> worker_addresses = a_job();
  for (const char* const nowhere : {"", "127.0.0.1"}) {
    worker_addresses[2].store_host = nowhere;
    expect_refused(worker_addresses, "rank 0 (host-a, pid 1)", "rank 2 (host-b, pid 3)");
  }
  worker_addresses[2].store_host = "fe80::1%eth77";  // an interface that is not here is no reason
  EXPECT_TRUE(dial_addresses(worker_addresses, 0));
}

TEST(DialAddresses, AreEmptyWhereARankTellsNone) {
  const std::vector<WorkerAddress> worker_addresses = {
      worker_address_of(1, "a", 1, "", ""), worker_address_of(2, "a", 1, "127.0.0.1:7", "")};
  EXPECT_THAT(dialled_by(worker_addresses, 1), ElementsAre("", "127.0.0.1:7"));
}

}  // namespace
}  // namespace tutti::native
