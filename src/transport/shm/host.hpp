#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "os/death_pipe.hpp"
#include "os/fd.hpp"
#include "os/private_listener.hpp"
#include "os/shared_memory.hpp"
#include "transport/region.hpp"
#include "transport/shm/descriptor_exchange.hpp"
#include "transport/shm/host_address.hpp"

namespace tutti::transport::shm {

/// This rank's share of the memory of its host, and its view of the others'.
class Host {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Makes our arena, page and, if there is a folder for it, a listener; none if the rank will stay
  /// alone. `secret`: of the job; it names a folder where other users have made the usual ones.
  [[nodiscard]] static Result<std::unique_ptr<Host>> prepare(
      int rank, const std::string& host_id, bool alone = false,
      std::span<const std::byte> secret = {});
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] const HostAddress& worker_address() const noexcept { return own_address_; }
  /// The name of that rank's socket for this rank.
  [[nodiscard]] std::string socket_name(const HostAddress& worker_address) const;
  /// Listens on an abstract name, too: for ranks that do not share a folder. Before any of them
  /// joins.
  [[nodiscard]] Outcome listen_by_name();
  /// Exchanges descriptors with `ranks` (global, ascending, ourselves among them), all of our host.
  /// `worker_addresses` has one entry for each global rank; `secret` is the job's. If a rank fails,
  /// all do.
  [[nodiscard]] Outcome join(const std::vector<int>& ranks,
                             const std::vector<HostAddress>& worker_addresses,
                             std::span<const std::byte> secret, Deadline deadline);
  /// Alone on this host, or nobody shares memory: only our own arena.
  void stay_alone();

  [[nodiscard]] Regions& regions() noexcept { return regions_; }
  /// Allocates pages of our arena or page, and maps them if they are not. An error if memory, or
  /// the address space, is short.
  [[nodiscard]] Outcome populate(std::byte* data, std::size_t size);
  [[nodiscard]] int event_fd() const noexcept { return event_.get(); }
  /// Local indexes of ranks whose process has ended since the last call. Costs one system call.
  [[nodiscard]] const std::vector<int>& ended();
  /// Publishes that this rank ends gracefully: the end of its process breaks no group after that.
  void leave() noexcept;

 private:
  Host() = default;
  [[nodiscard]] Outcome map_all(const std::vector<int>& ranks,
                                const std::vector<HostAddress>& worker_addresses,
                                std::vector<Descriptors>& all);
  [[nodiscard]] Outcome map_peer(int local, const HostAddress& worker_address, Descriptors shared);
  [[nodiscard]] bool map_to(int local, std::size_t end) noexcept;
  void close_listener() noexcept;

  int rank_ = 0;
  HostAddress own_address_;
  Descriptors own_;
  os::PrivateListener listener_;
  os::Fd named_listener_;  ///< of an abstract name
  /// Its place is for the connection by which a rank with too few descriptors tells it or hears it.
  os::Fd spare_;
  os::Fd event_;
  // Shared, because ranks that are threads of one process use each other's mappings.
  std::shared_ptr<os::PartialMapping> arena_;
  std::shared_ptr<os::Mapping> page_;
  std::vector<std::shared_ptr<os::PartialMapping>> arenas_;  ///< of peers, by local index
  std::vector<std::shared_ptr<os::Mapping>> pages_;          ///< of peers
  std::vector<os::Fd> events_;
  std::vector<os::DeathPipe> death_pipes_;  ///< by local index; invalid: ended, or our own
  std::vector<pollfd> watched_;             ///< used by `ended` only: two for each rank
  std::vector<int> ended_;                  ///< the last answer of `ended`
  Regions regions_;
};

/// "stopped", "held by a debugger", ... or empty if the process runs or cannot be seen.
[[nodiscard]] std::string process_state(int pid);

}  // namespace tutti::transport::shm
