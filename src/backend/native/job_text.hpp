#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/world.hpp"

namespace tutti::native {

/// The facts about a job in its log line, as one of its ranks knows them.
struct JobFacts {
  std::vector<std::string> hosts;  ///< name of the host of each rank
  int ranks_here = 1;              ///< ranks that share memory with this one, including itself
  std::string address;             ///< the address that others connect to; empty: no TCP
  std::string interface;           ///< of that address; empty: it is not known
  bool encrypted = false;
  int cpus = 1;           ///< of a host
  std::string selection;  ///< plan::selection_text
};

/// One line for the job: version, ranks and hosts, transports, address, encryption, algorithms.
[[nodiscard]] std::string job_text(const JobFacts& facts);

/// "rank 2: shared memory with ranks 0-1, 3; TCP with 4-7".
[[nodiscard]] std::string peers_text(const engine::World& world);

/// "0-2, 5"; at most 16 runs, then "...".
[[nodiscard]] std::string ranks_text(std::span<const int> ranks);

}  // namespace tutti::native
