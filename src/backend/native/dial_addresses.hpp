#pragma once

#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "backend/native/worker_address.hpp"

namespace tutti::native {

/// The address at which `rank` connects to each rank. A rank whose worker address is unspecified
/// (0.0.0.0 or ::) is on the host of the store: ranks of that host connect by loopback, others at
/// the address by which they have reached the store. Error: refused if ranks are on several hosts
/// and one of them can be reached on its own host only; it names that rank, and is the same on
/// every rank.
[[nodiscard]] Result<std::vector<std::string>> dial_addresses(
    const std::vector<WorkerAddress>& worker_addresses, int rank);

}  // namespace tutti::native
