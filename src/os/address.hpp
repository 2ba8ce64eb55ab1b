#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

namespace tutti::os {

/// An IPv4 or IPv6 address with a port.
class Address {
 public:
  /// The unspecified IPv4 address, port 0.
  Address() noexcept;

  /// From a numeric host ("10.0.0.1", "::1", "[::1]", "fe80::1%eth0"). Never asks a name server.
  static Result<Address> parse(std::string_view host, std::uint16_t port);
  /// From "10.0.0.1:80" or "[::1]:80".
  static Result<Address> parse_endpoint(std::string_view text);
  /// From a numeric host or a name; a name may have several addresses. May ask a name server, whose
  /// own time limits hold.
  static Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port);
  /// From what the kernel filled in. An IPv4 address in IPv6 form becomes IPv4.
  static Result<Address> from_socket(const sockaddr_storage& storage);

  /// The host as an IPv6 address without its scope, which means nothing on another host; IPv4 in
  /// the form ::ffff:a.b.c.d.
  static constexpr std::size_t kHostBytes = 16;
  [[nodiscard]] std::array<std::byte, kHostBytes> host_bytes() const noexcept;
  static Address from_host_bytes(std::span<const std::byte, kHostBytes> bytes,
                                 std::uint16_t port) noexcept;

  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const noexcept;
  void set_port(std::uint16_t port) noexcept;
  /// Without brackets: "::1".
  [[nodiscard]] std::string host() const;
  /// "10.0.0.1:80" or "[::1]:80".
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] bool is_link_local() const noexcept;
  [[nodiscard]] bool is_unspecified() const noexcept;
  [[nodiscard]] bool is_multicast() const noexcept;
  /// The IPv4 address 255.255.255.255.
  [[nodiscard]] bool is_broadcast() const noexcept;

  [[nodiscard]] const sockaddr* data() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  [[nodiscard]] socklen_t size() const noexcept;

  friend bool operator==(const Address& a, const Address& b) noexcept;

 private:
  static Address unmapped(const sockaddr_storage& storage) noexcept;
  [[nodiscard]] const sockaddr_in& v4() const noexcept {
    return reinterpret_cast<const sockaddr_in&>(storage_);
  }
  [[nodiscard]] const sockaddr_in6& v6() const noexcept {
    return reinterpret_cast<const sockaddr_in6&>(storage_);
  }

  sockaddr_storage storage_;
};

}  // namespace tutti::os
