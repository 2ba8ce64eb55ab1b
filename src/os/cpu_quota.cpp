#include "os/cpu_quota.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "os/cgroup.hpp"

namespace tutti::os {
namespace {

std::optional<double> quota_of_second(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");  // "max 100000" or "200000 100000"
  double quota = 0;
  double period = 0;
  if (file >> quota >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

std::optional<double> quota_of_first(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");  // -1: none
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0)
    return quota / period;
  return std::nullopt;
}

std::uint64_t inode_of(const std::string& folder) {
  struct stat info {};
  return ::stat(folder.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

}  // namespace

std::optional<CpuQuota> cpu_quota(const std::string& root) {
  std::optional<CpuQuota> least;
  for (const Cgroup& group : cgroups_with("cpu", root)) {
    const std::optional<double> quota =
        group.second ? quota_of_second(group.folder) : quota_of_first(group.folder);
    if (!quota) continue;
    const double most = std::numeric_limits<int>::max();
    const int cpus = std::max(1, static_cast<int>(std::floor(std::min(*quota, most))));
    if (!least || cpus < least->cpus) least = CpuQuota{cpus, inode_of(group.folder)};
  }
  return least;
}

}  // namespace tutti::os
