// Whatever is given as the address of a host, with a port or without: it says the same when it is
// written and read again, or it is refused.

#include "fuzz/fuzzer.hpp"
#include "os/address.hpp"

using tutti::os::Address;

namespace tutti::fuzz::address_parser {

void check(tutti::Result<Address> address) {
  if (!address) {
    require(address.status().code() == tutti::Errc::invalid_argument);
    require(address.status().message().size() < 2000);
    return;
  }
  auto again = Address::parse_endpoint(address->to_string());
  require(again.ok() && *again == *address);
  auto host = Address::parse(address->host(), address->port());
  require(host.ok() && *host == *address);
  require(address->is_loopback() + address->is_unspecified() + address->is_multicast() +
              address->is_broadcast() <=
          1);
  require(address->size() <= sizeof(sockaddr_storage));
}

TUTTI_FUZZER(address_fuzz)(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(Address::parse(text, 1234));
  check(Address::parse_endpoint(text));
  return 0;
}

}  // namespace tutti::fuzz::address_parser
