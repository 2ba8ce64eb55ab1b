#include "memory_kills.hpp"

#include <optional>

#include "base/format.hpp"
#include "os/cgroup.hpp"

namespace tutti::launcher {

MemoryKills::MemoryKills()
    : of_cgroup_(os::out_of_memory_kills()), of_host_(os::out_of_memory_kills_of_host()) {}

std::string MemoryKills::told() const {
  if (os::out_of_memory_kills() == of_cgroup_) {
    // In a cgroup of its own, or in none that counts.
    if (os::out_of_memory_kills_of_host() == of_host_) return {};
    return "the kernel has killed a process of this host because memory is used up (oom_kill in "
           "/proc/vmstat), perhaps this one: start fewer workers on the host, or raise the limit "
           "of the container or cgroup that this worker runs in";
  }
  const std::string killed =
      "the kernel has killed a process of this cgroup because its memory is used up (oom_kill in "
      "memory.events): ";
  if (const std::optional<os::MemoryLimit> limit = os::memory_limit())
    return killed + base::format(
                        "its limit is {} MiB ({}); raise it (docker run --memory, "
                        "limits.memory of Kubernetes, sbatch --mem, MemoryMax of systemd), "
                        "or start fewer workers on the host",
                        limit->bytes >> 20, limit->file);
  return killed + "no limit is set, so it is the host's memory; start fewer workers on the host";
}

}  // namespace tutti::launcher
