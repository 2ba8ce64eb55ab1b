#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::os {

/// A cgroup of this process, or one above it.
struct Cgroup {
  std::string folder;
  bool second = false;  ///< of version 2
  bool own = false;     ///< this process is in it, and not in one below
};
/// Those with this controller, as far as they are mounted here, in each hierarchy from our own
/// upwards. `root` stands before each path that is read.
[[nodiscard]] std::vector<Cgroup> cgroups_with(const std::string& controller,
                                               const std::string& root = "");

/// A limit of memory, and the file that holds it.
struct MemoryLimit {
  std::string file;
  std::uint64_t bytes = 0;
};
/// The least one of our cgroup and those above it; nothing: none has one.
[[nodiscard]] std::optional<MemoryLimit> memory_limit(const std::string& root = "");

/// How many processes of this host the kernel has killed because memory was used up.
[[nodiscard]] std::uint64_t out_of_memory_kills_of_host(const std::string& root = "");

/// How many processes of our cgroup the kernel has killed because its memory was used up.
[[nodiscard]] std::uint64_t out_of_memory_kills(const std::string& root = "");

}  // namespace tutti::os
