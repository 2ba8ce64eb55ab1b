#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/cpu_quota.hpp"
#include "os/cpu_set.hpp"

namespace tutti::transport::shm {

/// A rank's description of where it runs, for the others, before anything is mapped.
struct HostAddress {
  std::string boot;      ///< id of the running kernel
  std::string host_key;  ///< equal = may share memory: boot, network namespace, user, TUTTI_HOST_ID
  std::string host_name;
  /// Of the rank's unix socket: a file in `folder`, or the end of an abstract name.
  std::string listener;
  std::string folder;         ///< id of the folder of that file (os::PrivateListener); empty: none
  std::uint64_t network = 0;  ///< its network namespace; 0: not known
  std::uint64_t nonce = 0;
  int pid = 0;
  std::uint64_t pid_namespace = 0;    ///< the namespace of `pid`; 0: not known
  os::CpuSet cpus;                    ///< its affinity when this address was made
  std::optional<os::CpuQuota> quota;  ///< of its cgroup
  std::optional<int> given_cpus;      ///< CPUs of all ranks of its host together (TUTTI_CPUS)
  bool fence = false;                 ///< takes part in membarrier
};

/// True if these ranks (global) see one folder, so that no other user can reach their sockets.
[[nodiscard]] bool share_a_folder(const std::vector<int>& ranks,
                                  const std::vector<HostAddress>& worker_addresses);

}  // namespace tutti::transport::shm
