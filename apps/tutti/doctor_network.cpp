#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/tutti/doctor.hpp"
#include "apps/tutti/line_of.hpp"
#include "base/format.hpp"
#include "base/getenv.hpp"
#include "os/address.hpp"
#include "os/environment.hpp"
#include "os/host.hpp"
#include "os/route.hpp"
#include "os/socket.hpp"
#include "rendezvous/advertised_address.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/interfaces.hpp"

namespace tutti::cli {
namespace {

struct Interface {
  bool up = false;
  std::vector<std::string> addresses;
};

std::map<std::string, Interface> interfaces() {
  std::map<std::string, Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    Interface& interface = found[one->ifa_name];
    interface.up = (one->ifa_flags & IFF_UP) != 0;
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, one->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (auto address = os::Address::from_socket(storage))
      interface.addresses.push_back(address->host());
  }
  return found;
}

std::string interface_of(const std::string& address) {
  for (const auto& [name, interface] : interfaces()) {
    if (std::ranges::find(interface.addresses, address) != interface.addresses.end()) return name;
  }
  return "no interface";
}

/// "10.0.0.2 (eth0)", by which we would reach `target`.
std::optional<std::string> way_towards(const os::Address& target) {
  auto ours = os::address_towards(target);
  if (!ours) return std::nullopt;
  return base::format("{} ({})", ours->host(), interface_of(ours->host()));
}

void list_interfaces(Findings& findings) {
  std::string_view name = "interfaces";
  for (const auto& [interface, facts] : interfaces()) {
    const std::string folder = "/sys/class/net/" + interface;
    const std::string speed = line_of(folder + "/speed");
    findings.fact(
        std::exchange(name, ""),
        base::format("{}: {}, {}, mtu {}{}", interface, facts.up ? "up" : "down",
                     facts.addresses.empty() ? std::string("no address")
                                             : base::format("{}", fmt::join(facts.addresses, " ")),
                     line_of(folder + "/mtu"),
                     speed.empty() || speed == "-1" ? "" : ", " + speed + " Mbit/s"));
  }
}

void look_at_name(Findings& findings) {
  const std::string name = os::host_name();
  auto addresses = os::Address::resolve(name, 0);
  if (!addresses) {
    findings.fact("own name", name + " has no address");
    findings.hint(
        base::format("the name {} of this host has no address: give an address as "
                     "--master-addr or MASTER_ADDR, or add the name to /etc/hosts",
                     name));
    return;
  }
  std::vector<std::string> hosts;
  for (const os::Address& address : *addresses) hosts.push_back(address.host());
  findings.fact("own name", base::format("{} is {}", name, fmt::join(hosts, " ")));
  if (std::ranges::all_of(*addresses, [](const auto& one) { return one.is_loopback(); })) {
    findings.hint(
        base::format("the name {} of this host means loopback here, where other hosts "
                     "cannot reach it: give an address as --master-addr on several hosts",
                     name));
  }
}

void look_at_ways(Findings& findings) {
  findings.fact("on one host", "127.0.0.1, chosen by tuttirun");
  // An address that no host has (RFC 5737): the route to it is the default route. Nothing is sent.
  const auto outside = os::Address::parse("192.0.2.1", 9);
  const auto way = outside ? way_towards(outside.value()) : std::nullopt;
  findings.fact("to other hosts", way ? "probably " + *way : "no way: there is no default route");
  const std::string master = base::getenv("MASTER_ADDR");
  if (master.empty()) return;
  auto addresses = os::Address::resolve(master, 1);
  if (!addresses) {
    findings.wrong(base::format("MASTER_ADDR is {}: {}; set it to the address of rank 0's host",
                                master, addresses.status().message()));
    return;
  }
  std::optional<std::string> towards;
  for (const os::Address& address : *addresses)
    if (!towards) towards = way_towards(address);
  findings.fact("to MASTER_ADDR", towards.value_or("no way"));
  if (!towards) {
    findings.wrong(base::format("MASTER_ADDR is {}, to which no route leads from here", master));
  }
}

/// At which of its addresses a rank would listen.
void look_at_choice(Findings& findings) {
  if (const auto told = rendezvous::Environment({}).filled("TUTTI_ADVERTISE")) {
    const auto advertised = rendezvous::parse_advertised(*told);
    if (advertised.ok())
      findings.fact("listens on", base::format("all addresses, and tells {}", *told));
    else
      findings.wrong(std::string(advertised.status().message()));
    return;
  }
  const auto chosen = rendezvous::choose_interface(rendezvous::Environment({}), AF_INET);
  if (!chosen.ok()) {
    findings.wrong(std::string(chosen.status().message()));
  } else if (const auto& one = chosen.value()) {
    findings.fact("listens on", base::format("{} ({}), as {} says", one->interface.address.host(),
                                             one->interface.name, one->variable));
  } else {
    findings.fact("listens on", "the address by which it reaches the master");
  }
}

}  // namespace

void look_at_network(Findings& findings) {
  findings.section("Network");
  list_interfaces(findings);
  look_at_name(findings);
  look_at_ways(findings);
  look_at_choice(findings);
  const auto loopback = os::Address::parse("127.0.0.1", 0);
  if (loopback) {
    const auto listener = os::listen_tcp(loopback.value());
    if (!listener.ok()) {
      findings.wrong(base::format("{}; tuttirun serves its store there: is the interface lo up?",
                                  listener.status().message()));
    }
  }
  const std::string folder = "/proc/sys/net/ipv4/";
  findings.fact("congestion control",
                base::format("{} (there are: {}); reno for our connections on loopback",
                             line_of(folder + "tcp_congestion_control"),
                             line_of(folder + "tcp_available_congestion_control")));
}

void look_at_peers(Findings& findings) {
  constexpr std::array<std::string_view, 7> kPrograms = {
      "mpirun",   "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra",
      "torchrun", "python3",        "nvidia-smi"};
  findings.section("Other programs");
  for (const std::string_view program : kPrograms) {
    const auto file = os::find_program(std::string(program));
    findings.fact(program, file ? file->string() : "not found");
  }
}

}  // namespace tutti::cli
