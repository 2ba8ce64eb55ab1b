#pragma once

#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "os/address.hpp"

namespace tutti::os {

struct Interface {
  std::string name;
  Address address;  ///< port 0; an interface with several is listed several times
  bool is_loopback = false;
};
/// The network interfaces of this host that are up and have an address, in the kernel's order.
[[nodiscard]] Result<std::vector<Interface>> interfaces();

/// True if it is an address of the loopback or of an interface of this host, whatever its port.
[[nodiscard]] bool is_own_address(const Address& address);

/// The address of ours from which packets to `target` would leave, port 0. Sends nothing.
[[nodiscard]] Result<Address> address_towards(const Address& target);

}  // namespace tutti::os
