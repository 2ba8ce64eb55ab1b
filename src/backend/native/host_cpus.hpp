#pragma once

#include <vector>

#include "transport/shm/host.hpp"

namespace tutti::native {

/// CPUs that the ranks of one host have together, at least 1: the least that any of them was given
/// (TUTTI_CPUS), else the union of what their affinity allows, capped by the quotas of their
/// cgroups.
[[nodiscard]] int cpus_of_host(const std::vector<const transport::shm::HostAddress*>& ranks);

/// The least of all hosts, told apart by their boot ids: the same on every rank.
[[nodiscard]] int least_cpus(const std::vector<transport::shm::HostAddress>& ranks);

}  // namespace tutti::native
