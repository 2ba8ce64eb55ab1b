#pragma once

#include <cstdint>
#include <string>

namespace tutti::launcher {

/// Says whether the kernel has killed a process for lack of memory since this was made, as far as
/// its counters show it.
class MemoryKills {
 public:
  MemoryKills();

  /// Names the process that was killed, and the setting that helps; empty: none was killed.
  [[nodiscard]] std::string told() const;

 private:
  std::uint64_t of_cgroup_;
  std::uint64_t of_host_;
};

}  // namespace tutti::launcher
