#pragma once

#include <cstdint>
#include <string>

namespace tutti::launcher {

/// Kills by the kernel for lack of memory since this was made, as far as it counts them.
class MemoryKills {
 public:
  MemoryKills();

  /// Whether it has, and what to set; empty: it has not.
  [[nodiscard]] std::string told() const;

 private:
  std::uint64_t of_cgroup_;
  std::uint64_t of_host_;
};

}  // namespace tutti::launcher
