#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::os {

/// How much CPU time a cgroup lets all its processes together use.
struct CpuQuota {
  int cpus = 1;             ///< whole ones, at least 1
  std::uint64_t group = 0;  ///< tells cgroups of one host apart: the inode of the group's folder
};

/// The least quota of our cgroup and of each one above it that is to be seen, of version 1 and 2.
/// nullopt: there is none. `root`: where /proc and the cgroups lie, in tests.
[[nodiscard]] std::optional<CpuQuota> cpu_quota(const std::string& root = "");

}  // namespace tutti::os
