#pragma once

#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "backend/native/worker_address.hpp"

namespace tutti::native {

/// The address at which `rank` dials each rank. One that tells all addresses is on the host of the
/// store: it is dialled by loopback there, and elsewhere where the dialling rank has reached the
/// store.
/// Error: refused where ranks are on several hosts and one of them can be reached on its own only;
/// it names that rank, and is the same on every rank.
[[nodiscard]] Result<std::vector<std::string>> dial_addresses(
    const std::vector<WorkerAddress>& worker_addresses, int rank);

}  // namespace tutti::native
