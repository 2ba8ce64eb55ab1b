#pragma once

#include <string>
#include <vector>

#include <tutti/backend/job_identity.hpp>
#include <tutti/config.hpp>

#include "backend/native/driver.hpp"
#include "backend/native/worker_address.hpp"
#include "engine/world.hpp"

namespace tutti::native {

/// The worker addresses of all ranks of a world, and what follows from them: which ranks share a
/// host, a machine and a pid namespace.
struct WorkerAddresses {
  /// `texts`: by rank, what each has told; `mine` is in one of them. An error names the rank.
  [[nodiscard]] static Result<WorkerAddresses> read(const std::vector<std::string>& texts,
                                                    const WorkerAddress& mine,
                                                    const JobIdentity& identity,
                                                    Config::TransportChoice transport);

  std::vector<WorkerAddress> told;                  ///< by rank; empty if all are on our host
  std::vector<transport::shm::HostAddress> places;  ///< their hosts, by rank
  std::vector<int> local;                           ///< the ranks of our host, with ourselves
  engine::World world;     ///< its ranks: host_of, local_of, whereabouts, pids, cpus, settings
  Driver::Options driver;  ///< for the ranks of this machine, which share our CPUs
};

}  // namespace tutti::native
