#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "os/private_listener.hpp"
#include "transport/region.hpp"
#include "transport/shm/descriptor_exchange.hpp"
#include "transport/shm/host_address.hpp"
#include "transport/shm/host_memory.hpp"
#include "transport/shm/user_memory.hpp"

namespace tutti::transport::shm {

/// This rank's share of the memory of its host, and its view of the others'.
class Host {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Finds out where this rank runs, and makes what it tells the others; no listener if the rank
  /// will stay alone. `secret`: of the job; it names a folder where other users have made the usual
  /// ones.
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
  /// Alone on this host, or nobody shares memory.
  [[nodiscard]] Outcome stay_alone();

  [[nodiscard]] Regions& regions() noexcept { return regions_; }
  /// HostMemory::populate
  [[nodiscard]] Outcome populate(std::byte* data, std::size_t size) {
    return memory_->populate(data, size);
  }
  /// UserMemory::allocate. Null, too, where no input is read where it lies (Regions::user_bytes).
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) {
    if (user_memory_ == nullptr) return std::shared_ptr<std::byte>();
    return user_memory_->allocate(bytes);
  }
  [[nodiscard]] int event_fd() const noexcept { return own_.event.get(); }
  /// Local indexes of ranks whose process has ended since the last call. Costs one system call.
  [[nodiscard]] const std::vector<int>& ended();
  /// Publishes that this rank ends gracefully: the end of its process breaks no group after that.
  void leave() noexcept;

 private:
  Host() = default;
  [[nodiscard]] Outcome map(const std::vector<int>& ranks, os::Fd memory, std::uint64_t id);
  [[nodiscard]] bool map_range(int local, std::size_t begin, std::size_t bytes) noexcept;
  void close_listener() noexcept;

  int rank_ = 0;
  HostAddress own_address_;
  os::PrivateListener listener_;
  os::Fd named_listener_;  ///< of an abstract name
  /// Its place is for the connection by which a rank with too few descriptors tells it or hears it.
  os::Fd spare_;
  RankDescriptors own_;
  std::shared_ptr<HostMemory> memory_;
  std::shared_ptr<UserMemory> user_memory_;  ///< null where the address space is limited
  os::DeathSet deaths_;
  std::vector<os::Fd> events_;  ///< of peers, by local index
  std::vector<int> ended_;      ///< the last answer of `ended`
  std::vector<bool> told_;      ///< by local index: it was in such an answer
  Regions regions_;
};

/// "stopped", "held by a debugger", ... or empty if the process runs or cannot be seen.
[[nodiscard]] std::string process_state(int pid);

}  // namespace tutti::transport::shm
