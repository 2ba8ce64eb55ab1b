#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/deadline.hpp"
#include "os/address.hpp"
#include "os/host.hpp"
#include "os/resolver.hpp"
#include "os/route.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/interfaces.hpp"
#include "rendezvous/rendezvous.hpp"

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

/// By which address other hosts reach us, if there is a way to any.
Result<std::optional<std::string>> towards_outside() {
  for (const char* const outside : kOutside) {
    auto target = os::Address::parse(outside, 9);
    if (!target) return target.status();
    auto ours = os::address_towards(*target);
    if (ours && !ours->is_loopback() && !ours->is_link_local())
      return std::optional<std::string>(ours->host());
  }
  return std::optional<std::string>();
}

Result<std::string> towards_master(const std::string& host, std::uint16_t port,
                                   const Settings& settings) {
  Result<std::vector<os::Address>> master = os::resolve_until(
      host, port, base::deadline_after(std::chrono::steady_clock::now(), settings.timeout));
  if (!master) return master.status();
  Status why(Errc::refused, "MASTER_ADDR " + host + " has no address");
  for (const os::Address& address : *master) {
    auto picked = chosen(settings, address.family());
    if (!picked) return picked.status();
    if (*picked) return (*picked)->host();
    if (address.is_unspecified()) {  // rank 0 that serves on all its addresses
      auto outwards = towards_outside();
      if (!outwards) return outwards.status();
      return outwards->value_or("127.0.0.1");
    }
    Result<os::Address> ours = os::address_towards(address);
    if (ours) return ours->host();
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
  return fmt::format("{} {}", *boot, *network);
}

}  // namespace

Result<std::string> our_address(const Rendezvous& rendezvous, const Settings& settings,
                                const Gather& gather) {
  if (!rendezvous.master_addr.empty())
    return towards_master(rendezvous.master_addr, rendezvous.master_port, settings);
  auto picked = chosen(settings, AF_INET);
  if (!picked) return picked.status();
  auto mine = whereabouts();
  if (!mine) return mine.status();
  auto all = gather("hosts", *mine);
  if (!all) return all.status();
  if (*picked) return (*picked)->host();
  if (std::ranges::all_of(*all, [&](const std::string& other) { return other == *mine; }))
    return std::string("127.0.0.1");
  auto outwards = towards_outside();
  if (!outwards) return outwards.status();
  if (*outwards) return **outwards;
  return Status(Errc::refused,
                fmt::format("host {} has no way to other hosts that the system knows of, and the "
                            "ranks are on several; name the interface in TUTTI_SOCKET_IFNAME",
                            os::host_name()));
}

}  // namespace tutti::rendezvous
