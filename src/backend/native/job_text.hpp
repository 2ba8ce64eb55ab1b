#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/world.hpp"

namespace tutti::native {

/// What the log tells of a job, as one of its ranks knows it.
struct JobFacts {
  std::vector<std::string> hosts;  ///< name of the host of each rank
  int ranks_here = 1;              ///< that share memory with this one, itself included
  std::string address;             ///< where this rank is dialled; empty: no TCP
  std::string interface;           ///< of that address; empty: it is not known
  bool encrypted = false;
  int cpus = 1;           ///< of a host
  std::string selection;  ///< plan::selection_text
};

/// One line for the job: version, ranks and hosts, transports, address, encryption, algorithms.
[[nodiscard]] std::string job_text(const JobFacts& facts);

/// "rank 2: shared memory with ranks 0-1, 3; TCP with 4-7".
[[nodiscard]] std::string routes_text(const engine::World& world);

/// "0-2, 5"; at most 16 runs, then "...".
[[nodiscard]] std::string ranks_text(std::span<const int> ranks);

}  // namespace tutti::native
