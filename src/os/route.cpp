#include "os/route.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/fd.hpp"
#include "os/socket.hpp"
#include "os/system_error.hpp"

namespace tutti::os {

Result<std::vector<Interface>> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return system_error("cannot list the network interfaces", errno);
  std::vector<Interface> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    auto address = Address::from_socket(storage);
    if (!address) continue;
    found.push_back({entry->ifa_name, *address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  ::freeifaddrs(first);
  return found;
}

bool is_own_address(const Address& address) {
  if (address.is_loopback()) return true;
  const auto host = address.host_bytes();
  auto all = interfaces();
  return all && std::ranges::any_of(
                    *all, [&](const Interface& one) { return one.address.host_bytes() == host; });
}

Result<Address> address_towards(const Address& target) {
  Address to = target;
  if (to.port() == 0)
    to.set_port(9);  // any: connecting a datagram socket only asks the routing table
  const Fd socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), to.data(), to.size()) != 0) {
    const int error = errno;
    return Outcome(Errc::refused, "no route to " + to.to_string() + ": " + std::strerror(error));
  }
  Result<Address> ours = local_address(socket.get());
  if (ours) ours->set_port(0);
  return ours;
}

}  // namespace tutti::os
