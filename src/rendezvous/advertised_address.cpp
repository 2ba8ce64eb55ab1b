#include "rendezvous/advertised_address.hpp"

#include <algorithm>
#include <cstddef>

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"
#include "os/address.hpp"
#include "rendezvous/environment.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::size_t kAdvertisedShown = 256;
constexpr std::size_t kLongestHost = 253;  // of the domain name system
constexpr int kMostPort = 65535;

Outcome bad_advertised(std::string_view text, std::string_view why) {
  return cannot_join(base::format(
      "TUTTI_ADVERTISE is \"{}\", {}; set it to HOST or HOST:PORT, by which the other ranks reach "
      "this one",
      base::shown(text, kAdvertisedShown), why));
}

bool is_name(std::string_view host) {
  return host.size() <= kLongestHost && std::ranges::all_of(host, [](char c) {
           const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           return letter || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
         });
}

}  // namespace

Result<AdvertisedAddress> parse_advertised(std::string_view text) {
  AdvertisedAddress advertised;
  std::string_view host = text;
  const std::size_t colon = text.rfind(':');
  // Several colons without brackets are an IPv6 address alone.
  const bool has_port =
      colon != std::string_view::npos &&
      (text.find(':') == colon || (text.front() == '[' && text[colon - 1] == ']'));
  if (has_port) {
    host = text.substr(0, colon);
    const auto port = base::whole_number<std::uint16_t>(text.substr(colon + 1));
    if (!port || *port == 0) return bad_advertised(text, "whose port is not from 1 to 65535");
    advertised.port = *port;
  }
  if (host.empty()) return bad_advertised(text, "which has no host");
  if (auto address = os::Address::parse(host, 0)) {
    if (address->is_unspecified() || address->is_multicast() || address->is_broadcast())
      return bad_advertised(text, "which is not the address of a host");
    advertised.host = address->host();
    return advertised;
  }
  if (!is_name(host)) return bad_advertised(text, "which is neither an address nor a host name");
  advertised.host = host;
  return advertised;
}

Result<std::uint16_t> port_of_local_rank(std::string_view variable, int first, int local_rank) {
  const bool makes_sense = first >= 1 && first <= kMostPort && local_rank >= 0;
  if (!makes_sense || local_rank > kMostPort - first) {
    return cannot_join(base::format(
        "{} is {} and LOCAL_RANK, which is added to it, is {}: together they are no port from 1 to "
        "65535",
        variable, first, local_rank));
  }
  return static_cast<std::uint16_t>(first + local_rank);
}

}  // namespace tutti::rendezvous
