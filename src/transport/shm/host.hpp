#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "os/cpu_quota.hpp"
#include "os/cpu_set.hpp"
#include "os/death_pipe.hpp"
#include "os/fd.hpp"
#include "os/shared_memory.hpp"
#include "transport/region.hpp"
#include "transport/shm/descriptor_exchange.hpp"

namespace tutti::transport::shm {

/// A rank's description of where it runs, for the others, before anything is mapped.
struct HostAddress {
  std::string boot;      ///< id of the running kernel
  std::string host_key;  ///< equal = may share memory: boot id, network namespace, TUTTI_HOST_ID
  std::string host_name;
  std::string listener;       ///< abstract name of the rank's unix socket
  std::uint64_t network = 0;  ///< its network namespace; 0: not known
  std::uint64_t nonce = 0;
  int pid = 0;
  std::uint64_t pid_namespace = 0;    ///< the namespace of `pid`; 0: not known
  os::CpuSet cpus;                    ///< its affinity when this address was made
  std::optional<os::CpuQuota> quota;  ///< of its cgroup
  std::optional<int> given_cpus;      ///< CPUs of all ranks of its host together (TUTTI_CPUS)
  bool fence = false;                 ///< takes part in membarrier
};

/// This rank's share of the memory of its host, and its view of the others'.
class Host {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Makes our arena, page and listener.
  [[nodiscard]] static Result<std::unique_ptr<Host>> prepare(int rank, const std::string& host_id);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] const HostAddress& worker_address() const noexcept { return own_address_; }
  /// Exchanges descriptors with `ranks` (global, ascending, ourselves among them), all of our host:
  /// the lowest one collects and hands out. `worker_addresses` has one entry for each global rank.
  [[nodiscard]] Status join(const std::vector<int>& ranks,
                            const std::vector<HostAddress>& worker_addresses, Deadline deadline);
  /// Alone on this host, or nobody shares memory: only our own arena.
  void stay_alone();

  [[nodiscard]] Regions& regions() noexcept { return regions_; }
  [[nodiscard]] int event_fd() const noexcept { return event_.get(); }
  /// Local indexes of ranks whose process has ended since the last call. Costs one system call.
  [[nodiscard]] const std::vector<int>& ended();
  /// Publishes that this rank ends gracefully: the end of its process breaks no group after that.
  void leave() noexcept;

 private:
  struct Shared {  ///< the descriptors that one rank gives to the others
    os::Fd arena;
    os::Fd page;
    os::Fd event;
    os::Fd process;
    os::Fd pipe;
  };
  Host() = default;
  [[nodiscard]] static Result<std::size_t> take(DescriptorExchange& descriptor_exchange,
                                                const std::vector<int>& ranks,
                                                std::vector<Shared>& all,
                                                std::vector<os::Fd>& connections);
  [[nodiscard]] Result<std::optional<std::size_t>> gather(
      DescriptorExchange& descriptor_exchange, const std::vector<int>& ranks,
      const std::vector<HostAddress>& worker_addresses, std::vector<Shared>& all,
      std::vector<os::Fd>& connections, Deadline deadline);
  [[nodiscard]] Status collect(const std::vector<int>& ranks,
                               const std::vector<HostAddress>& worker_addresses,
                               std::vector<Shared>& all, Deadline deadline);
  [[nodiscard]] Result<os::Fd> meet_leader(const HostAddress& leader, const std::vector<int>& ranks,
                                           const std::vector<HostAddress>& worker_addresses,
                                           Deadline deadline);
  [[nodiscard]] Status hand_in(const HostAddress& leader, const std::vector<int>& ranks,
                               const std::vector<HostAddress>& worker_addresses,
                               std::vector<Shared>& all, Deadline deadline);
  [[nodiscard]] Status map_peer(int local, const HostAddress& worker_address, Shared shared);

  int rank_ = 0;
  HostAddress own_address_;
  Shared own_;
  os::Fd listener_;
  os::Fd event_;
  // Shared, because ranks that are threads of one process use each other's mappings.
  std::shared_ptr<os::Mapping> arena_;
  std::shared_ptr<os::Mapping> page_;
  std::vector<std::shared_ptr<os::Mapping>> mappings_;  ///< of peers
  std::vector<os::Fd> events_;
  std::vector<os::DeathPipe> death_pipes_;  ///< by local index; invalid: ended, or our own
  std::vector<pollfd> watched_;             ///< used by `ended` only: two for each rank
  std::vector<int> ended_;                  ///< the last answer of `ended`
  Regions regions_;
};

/// "stopped", "held by a debugger", ... or empty if the process runs or cannot be seen.
[[nodiscard]] std::string process_state(int pid);

}  // namespace tutti::transport::shm
