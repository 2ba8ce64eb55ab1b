#include "os/cgroup.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/split.hpp"

namespace tutti::os {
namespace {

bool lists(std::string_view controllers, std::string_view controller) {
  const auto names = base::split(controllers, ',');
  return std::ranges::find(names, controller) != names.end();
}

/// A mounted hierarchy that may hold the controller.
struct Mount {
  std::string root;   ///< the group that stands at `point`
  std::string point;  ///< a folder
  bool second = false;
};

// A line: id, parent, device, root, point, options, more fields, "-", type, source, options.
std::optional<Mount> mount_of(const std::string& line, const std::string& controller) {
  constexpr std::size_t kRoot = 3;
  constexpr std::size_t kPoint = 4;
  const auto fields = base::split(line, ' ');
  const auto dash = std::ranges::find(fields, "-");
  if (fields.end() - dash < 4 || dash - fields.begin() <= static_cast<std::ptrdiff_t>(kPoint))
    return std::nullopt;
  const bool second = dash[1] == "cgroup2";
  if (!second && !(dash[1] == "cgroup" && lists(dash[3], controller))) return std::nullopt;
  return Mount{std::string(fields[kRoot]), std::string(fields[kPoint]), second};
}

std::vector<Mount> mounts(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/mountinfo");
  std::vector<Mount> all;
  for (std::string line; std::getline(file, line);) {
    if (std::optional<Mount> one = mount_of(line, controller)) all.push_back(std::move(*one));
  }
  return all;
}

/// Our group in that hierarchy, as its path there.
std::optional<std::string> group_in(const Mount& mount, const std::string& root,
                                    const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool ours = mount.second ? line.starts_with("0::") : lists(controllers, controller);
    if (ours) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The number behind this word in a file of words and numbers.
std::uint64_t number_in(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string word;
  for (std::uint64_t number = 0; file >> word >> number;) {
    if (word == wanted) return number;
  }
  return 0;
}

}  // namespace

std::vector<Cgroup> cgroups_with(const std::string& controller, const std::string& root) {
  std::vector<Cgroup> all;
  for (const Mount& mount : mounts(root, controller)) {
    std::optional<std::string> group = group_in(mount, root, controller);
    if (!group) continue;
    // In a container the mount shows its own group only, while the path may begin at the host's.
    if (mount.root != "/" && group->starts_with(mount.root)) group->erase(0, mount.root.size());
    std::string path = *group == "/" ? "" : *group;
    bool own = true;
    while (true) {
      all.push_back({root + mount.point + path, mount.second, std::exchange(own, false)});
      const auto slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return all;
}

std::optional<MemoryLimit> memory_limit(const std::string& root) {
  // Version 1 has a number where there is none, too; version 2 has a word.
  constexpr std::uint64_t kNone = std::uint64_t{1} << 62;
  std::optional<MemoryLimit> least;
  for (const Cgroup& group : cgroups_with("memory", root)) {
    const std::string path =
        group.folder + (group.second ? "/memory.max" : "/memory.limit_in_bytes");
    std::uint64_t bytes = 0;
    if (!(std::ifstream(path) >> bytes) || bytes >= kNone) continue;
    if (!least || bytes < least->bytes) least = MemoryLimit{path, bytes};
  }
  return least;
}

std::uint64_t out_of_memory_kills_of_host(const std::string& root) {
  return number_in(root + "/proc/vmstat", "oom_kill");
}

std::uint64_t out_of_memory_kills(const std::string& root) {
  std::uint64_t kills = 0;
  for (const Cgroup& group : cgroups_with("memory", root)) {
    if (group.own)
      kills += number_in(group.folder + (group.second ? "/memory.events" : "/memory.oom_control"),
                         "oom_kill");
  }
  return kills;
}

}  // namespace tutti::os
