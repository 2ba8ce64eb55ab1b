#include "backend/native/dial_addresses.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/format.hpp"
#include "os/address.hpp"

namespace tutti::native {
namespace {

/// True if both have the same loopback.
bool same_network(const WorkerAddress& a, const WorkerAddress& b) {
  return a.host.boot == b.host.boot && a.host.network == b.host.network;
}

/// The address at which the host of `by` can connect to `of`. Nothing: there is none.
std::optional<os::Address> address_from_elsewhere(const WorkerAddress& of,
                                                  const WorkerAddress& by) {
  auto told = os::Address::parse_endpoint(of.address);
  if (!told) return std::nullopt;
  os::Address address = *told;
  if (address.is_unspecified()) {
    auto store = os::Address::parse(by.store_host, address.port());
    if (!store)  // it ends with %interface, which is valid on that host only
      store = os::Address::parse(by.store_host.substr(0, by.store_host.find('%')), address.port());
    if (!store) return std::nullopt;
    address = *store;
  }
  if (address.is_loopback()) return std::nullopt;
  return address;
}

std::string describe(const std::vector<WorkerAddress>& worker_addresses, std::size_t rank) {
  const transport::shm::HostAddress& host = worker_addresses[rank].host;
  return base::format("rank {} ({}, pid {})", rank, host.host_name, host.pid);
}

}  // namespace

Result<std::vector<std::string>> dial_addresses(const std::vector<WorkerAddress>& worker_addresses,
                                                int rank) {
  // Checks only one rank of each network, because there may be thousands of ranks.
  std::vector<std::size_t> networks;
  for (std::size_t r = 0; r < worker_addresses.size(); ++r) {
    const bool known = std::ranges::any_of(networks, [&](std::size_t one) {
      return same_network(worker_addresses[one], worker_addresses[r]);
    });
    if (!known) networks.push_back(r);
  }
  for (std::size_t of = 0; of < worker_addresses.size() && networks.size() > 1; ++of) {
    for (const std::size_t by : networks) {
      if (same_network(worker_addresses[of], worker_addresses[by]) ||
          address_from_elsewhere(worker_addresses[of], worker_addresses[by]))
        continue;
      return Outcome(
          Errc::refused,
          base::format("the ranks are on several hosts, and {} cannot be reached from that of {}: "
                       "all that it knows of its own address is the loopback; set MASTER_ADDR to "
                       "an address that all hosts reach, or name an interface in "
                       "TUTTI_SOCKET_IFNAME, or what reaches it in TUTTI_ADVERTISE",
                       describe(worker_addresses, of), describe(worker_addresses, by)));
    }
  }
  std::vector<std::string> addresses;
  const WorkerAddress& mine = worker_addresses[static_cast<std::size_t>(rank)];
  for (const WorkerAddress& worker_address : worker_addresses) {
    auto told = os::Address::parse_endpoint(worker_address.address);
    if (!told || !told->is_unspecified()) {
      addresses.push_back(worker_address.address);
    } else if (same_network(worker_address, mine)) {
      addresses.push_back(base::format("127.0.0.1:{}", told->port()));
    } else {
      const auto address = address_from_elsewhere(worker_address, mine);
      addresses.push_back(address ? address->to_string() : worker_address.address);
    }
  }
  return addresses;
}

}  // namespace tutti::native
