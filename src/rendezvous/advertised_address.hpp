#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

namespace tutti::rendezvous {

/// The address that a rank tells the others if it is none of its own (TUTTI_ADVERTISE).
struct AdvertisedAddress {
  std::string host;        ///< numeric, without brackets, or a name
  std::uint16_t port = 0;  ///< 0: none is given
};

/// "10.0.0.1", "10.0.0.1:7000", "node-1:7000", "fd00::1", "[fd00::1]:7000". Pure.
/// Errors: invalid_argument, which names the variable.
[[nodiscard]] Result<AdvertisedAddress> parse_advertised(std::string_view text);

/// The port on which the rank of this number on its host listens: TUTTI_PORT is that of the first.
/// Errors: invalid_argument, where there is none of this number.
[[nodiscard]] Result<std::uint16_t> port_of_local_rank(std::string_view variable, int first,
                                                       int local_rank);

}  // namespace tutti::rendezvous
