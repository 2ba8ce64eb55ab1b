#pragma once

#include <vector>

#include "transport/shm/host.hpp"

namespace tutti::native {

/// The number of CPUs that the ranks of one host have together, at least 1: the least value of
/// TUTTI_CPUS on any of them, else the union of their affinities, capped by the quotas of their
/// cgroups.
[[nodiscard]] int cpus_of_host(const std::vector<const transport::shm::HostAddress*>& ranks);

/// The least number of all hosts (hosts have different boot ids). It is equal on every rank.
[[nodiscard]] int least_cpus(const std::vector<transport::shm::HostAddress>& ranks);

}  // namespace tutti::native
