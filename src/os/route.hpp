#pragma once

#include <tutti/error.hpp>

#include "os/address.hpp"

namespace tutti::os {

/// The address of ours from which packets to `target` would leave, port 0. Sends nothing.
[[nodiscard]] Result<Address> address_towards(const Address& target);

}  // namespace tutti::os
