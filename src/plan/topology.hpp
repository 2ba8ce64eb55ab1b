#pragma once

#include <cstdint>
#include <vector>

namespace tutti::plan {

/// Which ranks of a group share a host, as every member knows it. Pure data, equal on all members.
struct Topology {
  std::vector<int> host_of;  ///< host number of each rank, hosts numbered in order of first rank
  int hosts = 1;
  int max_per_host = 1;
  /// Every host holds the same power of two of consecutive ranks (the last host may have fewer, a
  /// single one any number): then a two-level sum has the order of the binomial tree
  /// (docs/reference/semantics.md).
  bool aligned = true;
  std::uint64_t id = 0;  ///< hash of host_of: equal groupings have equal ones

  [[nodiscard]] int size() const noexcept { return static_cast<int>(host_of.size()); }
  [[nodiscard]] bool one_host() const noexcept { return hosts == 1; }
};

[[nodiscard]] Topology make_topology(std::vector<int> host_of);

}  // namespace tutti::plan
