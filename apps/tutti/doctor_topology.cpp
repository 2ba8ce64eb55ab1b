#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/tutti/doctor.hpp"
#include "apps/tutti/line_of.hpp"
#include "base/format.hpp"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

int count_nodes() {
  constexpr std::string_view kNode = "node";
  std::error_code none;
  int nodes = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("/sys/devices/system/node", none)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > kNode.size() && name.starts_with(kNode) &&
        name.find_first_not_of("0123456789", kNode.size()) == std::string::npos)
      ++nodes;
  }
  return nodes;
}

/// The caches of one level, by the CPUs that share them.
struct Caches {
  int level = 0;
  std::map<std::string, std::string> sizes;
};

Caches last_level_caches() {
  Caches last;
  const long cpus = sysconf(_SC_NPROCESSORS_CONF);
  for (long cpu = 0; cpu < cpus; ++cpu) {
    std::error_code none;
    const std::string folder = base::format("/sys/devices/system/cpu/cpu{}/cache", cpu);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
      const std::string cache = entry.path().string();
      const int level = std::atoi(line_of(cache + "/level").c_str());
      if (level == 0 || level < last.level) continue;
      if (level > last.level) last = {level, {}};
      last.sizes[line_of(cache + "/shared_cpu_list")] = line_of(cache + "/size");
    }
  }
  return last;
}

}  // namespace

void look_at_topology(Findings& findings) {
  const int nodes = count_nodes();
  findings.fact("NUMA nodes", nodes > 0 ? std::to_string(nodes) : "unknown");
  const Caches caches = last_level_caches();
  constexpr std::size_t kShown = 4;
  std::vector<std::string> texts;
  for (const auto& [cpus, size] : caches.sizes) {
    if (texts.size() < kShown) texts.push_back(base::format("{} of CPUs {}", size, cpus));
  }
  if (caches.sizes.size() > kShown)
    texts.push_back(base::format("{} more", caches.sizes.size() - kShown));
  findings.fact("last-level cache",
                texts.empty() ? "unknown"
                              : base::format("level {}: {}", caches.level, fmt::join(texts, ", ")));
  if (caches.sizes.size() > 1) {
    findings.hint(
        "not all CPUs share a cache: ranks that talk much are faster beside each other (taskset, "
        "numactl or the scheduler's binding say where)");
  }
}

}  // namespace tutti::cli
