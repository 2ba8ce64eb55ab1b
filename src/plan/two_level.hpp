#pragma once

#include <vector>

#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

/// Who stands where, as the two-level algorithms see it. The first rank of a host leads it.
struct Hosts {
  explicit Hosts(const Shape& s);

  int count = 1;
  int mine = 0;
  int leader = 0;            ///< of this rank's host
  std::vector<int> local;    ///< the ranks of this rank's host, rising
  std::vector<int> leaders;  ///< by host

  [[nodiscard]] bool alone() const noexcept { return local.size() == 1; }
  /// The ranks of this host but `rank`, as runs.
  [[nodiscard]] std::vector<RankSet> local_without(int rank) const;
};

}  // namespace tutti::plan
