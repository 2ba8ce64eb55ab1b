#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "os/address.hpp"

namespace tutti::os {

/// Finds the addresses of a host: Address::resolve, or what a test gives instead.
using Lookup = std::function<Result<std::vector<Address>>(const std::string&, std::uint16_t)>;

/// Asks until there is an answer, with growing pauses: a name may become known later than its users
/// start. Ends at the deadline, however slow the name server is. A numeric host asks nobody.
Result<std::vector<Address>> resolve_until(const std::string& host, std::uint16_t port,
                                           std::chrono::steady_clock::time_point deadline,
                                           const Lookup& lookup = {});

}  // namespace tutti::os
