#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "transport/region.hpp"

namespace tutti::verify::sim {

namespace shm = transport::shm;
using transport::Regions;

/// The memory that simulated ranks share: the parts of a host's memory (shm/layout.hpp), in
/// this process. They are kept for the next simulation of the thread.
class Memory {
 public:
  /// `host_of`: host of each rank.
  explicit Memory(std::vector<int> host_of);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// The memory of a rank's host, as the rank sees it. Lives as long as this.
  [[nodiscard]] Regions& regions(int rank) noexcept { return base::at(regions_, rank); }
  /// Index of each rank among the ranks of `rank`'s host, -1 for those of other hosts.
  [[nodiscard]] std::vector<int> local_of(int rank) const;

 private:
  std::vector<int> host_of_;
  std::vector<std::byte*> arenas_;
  std::vector<std::pair<std::byte*, std::size_t>> controls_;  ///< of hosts, with their sizes
  std::vector<Regions> regions_;
};

}  // namespace tutti::verify::sim
