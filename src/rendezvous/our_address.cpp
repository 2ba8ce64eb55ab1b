#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "os/address.hpp"
#include "os/host.hpp"
#include "os/resolver.hpp"
#include "os/route.hpp"
#include "rendezvous/advertised_address.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/interfaces.hpp"
#include "rendezvous/rendezvous.hpp"
#include "store/tcp_client.hpp"

namespace tutti::rendezvous {
namespace {

// Addresses for documents, which no host has: they only ask for the way out of here.
constexpr const char* kOutside[] = {"192.0.2.1", "2001:db8::1"};

// The address of the interface that the program or the environment asks for; nothing if neither
// asks for one.
Result<std::optional<os::Address>> chosen(const Settings& settings, int family) {
  auto found = choose_interface(Environment(settings.environment), family, settings.interfaces);
  if (!found) return found.status();
  if (!*found) return std::optional<os::Address>();
  return std::optional<os::Address>((*found)->interface.address);
}

/// The address by which other hosts reach us, if there is a route to any.
Result<std::optional<os::Address>> towards_outside() {
  for (const char* const outside : kOutside) {
    auto target = os::Address::parse(outside, 9);
    if (!target) return target.status();
    auto ours = os::address_towards(*target);
    if (ours && !ours->is_loopback() && !ours->is_link_local())
      return std::optional<os::Address>(*ours);
  }
  return std::optional<os::Address>();
}

OwnAddress at(os::Address address) {
  address.set_port(0);
  return {address, address, os::Address()};
}

Result<OwnAddress> by_connection(const std::string& master, const os::Address& ours,
                                 const os::Address& stores, const Settings& settings) {
  OwnAddress own = address_by_connection(master, ours, stores);
  auto picked = chosen(settings, stores.family());
  if (!picked) return picked.status();
  if (*picked) own.listens = own.told = at(**picked).told;
  return own;
}

/// The own address of a rank whose store is not a TCP store of ours: the one towards MASTER_ADDR.
Result<OwnAddress> towards_master(const std::string& host, std::uint16_t port,
                                  const Settings& settings) {
  Result<std::vector<os::Address>> master = os::resolve_until(
      host, port, base::deadline_after(std::chrono::steady_clock::now(), settings.timeout));
  if (!master) return master.status();
  Outcome why(Errc::refused, "MASTER_ADDR " + host + " has no address");
  for (const os::Address& address : *master) {
    os::Address target = address;
    if (target.is_unspecified()) {  // rank 0 that serves on all its addresses
      auto loopback = os::Address::parse("127.0.0.1", port);
      if (!loopback) return loopback.status();
      target = *loopback;
    }
    Result<os::Address> ours = os::address_towards(target);
    if (ours) return by_connection(host, *ours, target, settings);
    why = ours.status();
  }
  return why;
}

// Equal on two ranks that reach each other by the loopback.
Result<std::string> whereabouts() {
  auto boot = os::boot_id();
  if (!boot) return boot.status();
  auto network = os::network_namespace();
  if (!network) return network.status();
  return base::format("{} {}", *boot, *network);
}

}  // namespace

OwnAddress address_by_connection(const std::string& master, os::Address ours, os::Address stores) {
  OwnAddress own = at(ours);
  own.store_host = stores;
  own.store_host.set_port(0);
  auto literal = os::Address::parse(master, 0);
  // The store's host. Other hosts may know it by another address, unless it was told as loopback.
  if (ours.is_loopback() && !(literal && literal->is_loopback()))
    own.listens = own.told = os::Address();
  return own;
}

namespace {

/// As `our_address`, without what Settings::advertise and Settings::port say.
Result<OwnAddress> found_address(const Rendezvous& rendezvous, const Settings& settings,
                                 const Gather& gather) {
  const std::string& master = rendezvous.master_addr;
  if (!master.empty() && rendezvous.client) {
    const store::TcpClient::Ends& ends = rendezvous.client->ends();
    return by_connection(master, ends.ours, ends.servers, settings);
  }
  if (!master.empty()) return towards_master(master, rendezvous.master_port, settings);
  auto picked = chosen(settings, AF_INET);
  if (!picked) return picked.status();
  auto mine = whereabouts();
  if (!mine) return mine.status();
  auto all = gather("hosts", *mine);
  if (!all) return all.status();
  if (*picked) return at(**picked);
  if (std::ranges::all_of(*all, [&](const std::string& other) { return other == *mine; })) {
    auto loopback = os::Address::parse("127.0.0.1", 0);
    if (!loopback) return loopback.status();
    return at(*loopback);
  }
  if (rendezvous.client && !rendezvous.client->ends().ours.is_loopback())
    return at(rendezvous.client->ends().ours);
  auto outwards = towards_outside();
  if (!outwards) return outwards.status();
  if (*outwards) return at(**outwards);
  if (!settings.advertise.empty()) return at(os::Address());
  return Outcome(Errc::refused,
                 base::format("host {} has no way to other hosts that the system knows of, and the "
                              "ranks are on several; name the interface in TUTTI_SOCKET_IFNAME",
                              os::host_name()));
}

/// The one of them that other hosts may know.
Result<os::Address> resolve_advertised(const AdvertisedAddress& advertised,
                                       const Settings& settings) {
  auto all = os::resolve_until(
      advertised.host, 0, base::deadline_after(std::chrono::steady_clock::now(), settings.timeout));
  if (!all)
    return cannot_join(base::format("TUTTI_ADVERTISE cannot be used: {}", all.status().message()));
  const auto outer =
      std::ranges::find_if(*all, [](const os::Address& one) { return !one.is_loopback(); });
  return outer == all->end() ? all->front() : *outer;
}

}  // namespace

Result<OwnAddress> our_address(const Rendezvous& rendezvous, const Settings& settings,
                               const Gather& gather) {
  Result<AdvertisedAddress> advertised = AdvertisedAddress();
  if (!settings.advertise.empty()) advertised = parse_advertised(settings.advertise);
  if (!advertised) return advertised.status();
  const auto port_of = [&](std::string_view variable, int first) -> Result<std::uint16_t> {
    if (first == 0) return std::uint16_t{0};
    return port_of_local_rank(variable, first, rendezvous.local_rank);
  };
  auto port = port_of("TUTTI_PORT", settings.port.value_or(0));
  if (!port) return port.status();
  auto advertised_port = port_of("the port in TUTTI_ADVERTISE", advertised->port);
  if (!advertised_port) return advertised_port.status();
  auto own = found_address(rendezvous, settings, gather);
  if (!own) return own.status();
  if (!settings.advertise.empty()) {
    auto told = resolve_advertised(*advertised, settings);
    if (!told) return told.status();
    own->told = *told;
    own->listens = told->is_loopback() ? *told : os::Address();
    if (*port == 0) port = advertised_port;
  }
  own->listens.set_port(*port);
  own->told.set_port(*advertised_port);
  return own;
}

}  // namespace tutti::rendezvous
