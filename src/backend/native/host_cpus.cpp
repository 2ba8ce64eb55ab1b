#include "backend/native/host_cpus.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>

namespace tutti::native {

using transport::shm::HostAddress;

namespace {

/// The CPU time that the cgroups of these ranks allow. Ranks of one cgroup share its quota.
std::int64_t quota_of(const std::vector<const HostAddress*>& ranks) {
  constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
  std::map<std::uint64_t, int> groups;
  for (const HostAddress* const rank : ranks) {
    if (!rank->quota) return kNone;
    const auto [group, fresh] = groups.try_emplace(rank->quota->group, rank->quota->cpus);
    if (!fresh) group->second = std::min(group->second, rank->quota->cpus);
  }
  std::int64_t all = 0;
  for (const auto& [group, cpus] : groups) all += cpus;
  return all;
}

}  // namespace

int cpus_of_host(const std::vector<const HostAddress*>& ranks) {
  os::CpuSet all;
  std::optional<int> given;
  for (const HostAddress* const rank : ranks) {
    all.add(rank->cpus);
    if (rank->given_cpus) given = std::min(given.value_or(*rank->given_cpus), *rank->given_cpus);
  }
  if (given) return *given;
  const auto allowed = static_cast<std::int64_t>(all.count());
  return static_cast<int>(std::max<std::int64_t>(1, std::min(allowed, quota_of(ranks))));
}

int least_cpus(const std::vector<HostAddress>& ranks) {
  std::map<std::string_view, std::vector<const HostAddress*>> hosts;
  for (const HostAddress& rank : ranks) hosts[rank.boot].push_back(&rank);
  int least = std::numeric_limits<int>::max();
  for (const auto& [boot, host] : hosts) least = std::min(least, cpus_of_host(host));
  return least;
}

}  // namespace tutti::native
