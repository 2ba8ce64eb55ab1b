#include "os/cpu_quota.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

namespace tutti::os {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool lists_cpu(const std::string& controllers) {
  const std::vector<std::string> names = split(controllers, ',');
  return std::find(names.begin(), names.end(), "cpu") != names.end();
}

/// A mounted hierarchy that may hold quotas.
struct Mount {
  std::string root;   ///< the group that stands at `point`
  std::string point;  ///< a folder
  bool second = false;
};

// A line: id, parent, device, root, point, options, more fields, "-", type, source, options.
std::optional<Mount> mount_of(const std::string& line) {
  constexpr std::size_t kRoot = 3;
  constexpr std::size_t kPoint = 4;
  const std::vector<std::string> fields = split(line, ' ');
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (fields.end() - dash < 4 || dash - fields.begin() <= static_cast<std::ptrdiff_t>(kPoint))
    return std::nullopt;
  if (dash[1] == "cgroup2") return Mount{fields[kRoot], fields[kPoint], true};
  if (dash[1] == "cgroup" && lists_cpu(dash[3])) return Mount{fields[kRoot], fields[kPoint], false};
  return std::nullopt;
}

std::vector<Mount> mounts(const std::string& root) {
  std::ifstream file(root + "/proc/self/mountinfo");
  std::vector<Mount> all;
  for (std::string line; std::getline(file, line);) {
    if (std::optional<Mount> one = mount_of(line)) all.push_back(std::move(*one));
  }
  return all;
}

/// Our group in that hierarchy, as its path there.
std::optional<std::string> group_in(const Mount& mount, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool ours = mount.second ? line.starts_with("0::") : lists_cpu(controllers);
    if (ours) return line.substr(second + 1);
  }
  return std::nullopt;
}

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
  for (const Mount& mount : mounts(root)) {
    std::optional<std::string> group = group_in(mount, root);
    if (!group) continue;
    // In a container the mount shows its own group only, while the path may begin at the host's.
    if (mount.root != "/" && group->starts_with(mount.root)) group->erase(0, mount.root.size());
    std::string path = *group == "/" ? "" : *group;
    while (true) {
      const std::string folder = root + mount.point + path;
      const std::optional<double> quota =
          mount.second ? quota_of_second(folder) : quota_of_first(folder);
      if (quota) {
        const double most = std::numeric_limits<int>::max();
        const int cpus = std::max(1, static_cast<int>(std::floor(std::min(*quota, most))));
        if (!least || cpus < least->cpus) least = CpuQuota{cpus, inode_of(folder)};
      }
      const auto slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return least;
}

}  // namespace tutti::os
