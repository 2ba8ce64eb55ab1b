#include "os/address.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "base/format.hpp"
#include "base/shown.hpp"

namespace tutti::os {

Address::Address() noexcept : storage_{} { storage_.ss_family = AF_INET; }

Result<Address> Address::parse(std::string_view host, std::uint16_t port) {
  const Outcome bad(
      Errc::invalid_argument,
      base::format("\"{}\" is not a numeric IPv4 or IPv6 address", base::shown_on_line(host, 256)));
  std::string_view inner = host;
  if (inner.size() >= 2 && inner.front() == '[' && inner.back() == ']')
    inner = inner.substr(1, inner.size() - 2);
  if (inner.empty() || inner.find('\0') != std::string_view::npos) return bad;

  Address address;
  const std::string text(inner);
  if (inner == host && inet_pton(AF_INET, text.c_str(),
                                 &reinterpret_cast<sockaddr_in&>(address.storage_).sin_addr) == 1) {
    address.set_port(port);
    return address;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage_);
  v6.sin6_family = AF_INET6;
  const std::size_t percent = text.find('%');
  if (percent != std::string::npos) {
    v6.sin6_scope_id = if_nametoindex(text.c_str() + percent + 1);
    if (v6.sin6_scope_id == 0) return bad;
  }
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), &v6.sin6_addr) != 1) return bad;
  address.set_port(port);
  return address;
}

Result<Address> Address::parse_endpoint(std::string_view text) {
  const Outcome bad(Errc::invalid_argument,
                    base::format("\"{}\" is not address:port, as in 10.0.0.1:80 or [::1]:80",
                                 base::shown_on_line(text, 256)));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad;
  const std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  // "::1:80" could be read in two ways.
  if (host.find(':') != std::string_view::npos && host.front() != '[') return bad;
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  return parse(host, port);
}

Result<std::vector<Address>> Address::resolve(const std::string& host, std::uint16_t port) {
  if (auto numeric = parse(host, port)) return std::vector<Address>{*numeric};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return Outcome(Errc::invalid_argument,
                   base::format("cannot find the address of host \"{}\": {}",
                                base::shown_on_line(host, 256), gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, entry->ai_addr, entry->ai_addrlen);
    auto address = from_socket(storage);
    if (!address) continue;
    address->set_port(port);
    addresses.push_back(*address);
  }
  if (addresses.empty()) {
    return Outcome(Errc::invalid_argument, base::format("host \"{}\" has no IPv4 or IPv6 address",
                                                        base::shown_on_line(host, 256)));
  }
  return addresses;
}

Result<Address> Address::from_socket(const sockaddr_storage& storage) {
  if (storage.ss_family != AF_INET && storage.ss_family != AF_INET6) {
    return Outcome(Errc::unsupported,
                   base::format("address family {} is neither IPv4 nor IPv6", storage.ss_family));
  }
  return unmapped(storage);
}

Address Address::unmapped(const sockaddr_storage& storage) noexcept {
  Address address;
  address.storage_ = storage;
  if (address.family() == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address.v6().sin6_addr)) {
    // A listener of both families tells IPv4 so.
    in_addr inner{};
    std::memcpy(&inner, &address.v6().sin6_addr.s6_addr[12], sizeof inner);
    const std::uint16_t port = address.port();
    address = Address();
    reinterpret_cast<sockaddr_in&>(address.storage_).sin_addr = inner;
    address.set_port(port);
  }
  return address;
}

std::array<std::byte, Address::kHostBytes> Address::host_bytes() const noexcept {
  std::array<std::byte, kHostBytes> bytes{};
  if (family() == AF_INET6) {
    std::memcpy(bytes.data(), &v6().sin6_addr, kHostBytes);
  } else {
    bytes[10] = bytes[11] = std::byte{0xff};
    std::memcpy(bytes.data() + 12, &v4().sin_addr, sizeof(in_addr));
  }
  return bytes;
}

Address Address::from_host_bytes(std::span<const std::byte, kHostBytes> bytes,
                                 std::uint16_t port) noexcept {
  sockaddr_storage storage{};
  storage.ss_family = AF_INET6;
  std::memcpy(&reinterpret_cast<sockaddr_in6&>(storage).sin6_addr, bytes.data(), kHostBytes);
  Address address = unmapped(storage);
  address.set_port(port);
  return address;
}

std::uint16_t Address::port() const noexcept {
  return ntohs(family() == AF_INET6 ? v6().sin6_port : v4().sin_port);
}

void Address::set_port(std::uint16_t port) noexcept {
  if (family() == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
}

std::string Address::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = family() == AF_INET6 ? static_cast<const void*>(&v6().sin6_addr)
                                           : static_cast<const void*>(&v4().sin_addr);
  inet_ntop(family(), bytes, text.data(), text.size());
  std::string host(text.data());
  if (family() == AF_INET6 && v6().sin6_scope_id != 0) {
    std::array<char, IF_NAMESIZE> name{};
    if (if_indextoname(v6().sin6_scope_id, name.data()) != nullptr)
      host += base::format("%{}", name.data());
  }
  return host;
}

std::string Address::to_string() const {
  return family() == AF_INET6 ? base::format("[{}]:{}", host(), port())
                              : base::format("{}:{}", host(), port());
}

bool Address::is_loopback() const noexcept {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6().sin6_addr);
  return (ntohl(v4().sin_addr.s_addr) >> 24) == 127;
}

bool Address::is_link_local() const noexcept {
  if (family() == AF_INET6) return IN6_IS_ADDR_LINKLOCAL(&v6().sin6_addr);
  return (ntohl(v4().sin_addr.s_addr) >> 16) == 0xa9fe;  // 169.254
}

bool Address::is_unspecified() const noexcept {
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&v6().sin6_addr);
  return v4().sin_addr.s_addr == htonl(INADDR_ANY);
}

bool Address::is_multicast() const noexcept {
  if (family() == AF_INET6) return IN6_IS_ADDR_MULTICAST(&v6().sin6_addr);
  return (ntohl(v4().sin_addr.s_addr) >> 28) == 14;
}

bool Address::is_broadcast() const noexcept {
  return family() == AF_INET && v4().sin_addr.s_addr == htonl(INADDR_BROADCAST);
}

socklen_t Address::size() const noexcept {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

bool operator==(const Address& a, const Address& b) noexcept {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  if (a.family() == AF_INET6) {
    return std::memcmp(&a.v6().sin6_addr, &b.v6().sin6_addr, sizeof(in6_addr)) == 0 &&
           a.v6().sin6_scope_id == b.v6().sin6_scope_id;
  }
  return a.v4().sin_addr.s_addr == b.v4().sin_addr.s_addr;
}

}  // namespace tutti::os
