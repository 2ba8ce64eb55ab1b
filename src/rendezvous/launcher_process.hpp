#pragma once

#include <optional>
#include <string>

#include "rendezvous/environment.hpp"

namespace tutti::rendezvous {

/// Finds the process of MPI's or Slurm's launcher that has started this rank: the nearest known
/// launcher above this process, or the nearest process that was not started as this rank. A rank
/// may be behind shells and other wrappers, so its parent need not be it.
///
/// Returns text that is the same for all ranks of a job on a host, and for no other job; absent if
/// there is no such process, as in a container of the rank's own, or where its variables were set
/// by hand. `proc`: for tests.
[[nodiscard]] std::optional<std::string> launcher_process(const Environment& environment,
                                                          const std::string& proc = "/proc");

}  // namespace tutti::rendezvous
