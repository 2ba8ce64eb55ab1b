#pragma once

#include <vector>

#include "base/index.hpp"
#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

namespace tutti::plan {

// Counters: of the ranks that are not leaders, and of leaders.
inline constexpr int kLocal = 0;
inline constexpr int kLeader = 1;

/// Which rank is on which host, as the two-level algorithms see it. The first rank of a host leads
/// it.
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
  /// body(leader, host) for every other host, from the next one on.
  template <class Body>
  void each_other_leader(Body body) const {
    for (int k = 1; k < count; ++k) {
      const int host = (mine + k) % count;
      body(base::at(leaders, host), host);
    }
  }
};

/// The other way to see it: the k-th ranks of all hosts are lane k. All ranks work, and each lane
/// moves its share between hosts.
struct Lanes {
  explicit Lanes(const Shape& s);

  int hosts = 1;
  int each = 1;  ///< ranks of a host
  int host = 0;  ///< of this rank
  int lane = 0;
  /// All hosts have as many ranks: else there are no lanes.
  bool even = true;
  [[nodiscard]] int rank_at(int on_host, int in_lane) const {
    return base::at(base::at(ranks_, on_host), in_lane);
  }

 private:
  std::vector<std::vector<int>> ranks_;  // by host
};

}  // namespace tutti::plan
