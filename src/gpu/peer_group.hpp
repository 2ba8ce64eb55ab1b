#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/error.hpp>

#include "gpu/gpu_set.hpp"
#include "gpu/ipc_peers.hpp"

namespace tutti::gpu {

struct GpuOperation;

/// The ranks that move elements between each other: their host group, the order of its calls, and
/// the GPU memory that they share.
///
/// The host group gets the operations of one lane in the order of their calls, which is the same on
/// all ranks. Lanes are the collectives, and the messages to each rank.
/// Threads: one at a time, under GpuSet::mutex, except for `has_waiting`.
class PeerGroup {
 public:
  static constexpr int kCollectives = -1;
  static constexpr int kNone = -2;  ///< receives have no lane

  /// Takes over a reference of `host`. `for_messages`: two ranks, and rank 0 sends all messages.
  PeerGroup(GpuSet& set, Backend* host_group, std::string its_name, bool for_messages = false);
  virtual ~PeerGroup() = default;
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  GpuSet& gpus;
  Backend* host;  ///< null after `leave`
  const std::string name;
  IpcPeers peers;

  // ---- The order of calls

  /// The next operation of its lane.
  void enter(GpuOperation& op, int lane);
  /// The host group has all calls of the operation.
  void all_submitted(GpuOperation& op) noexcept;
  /// The operation ends here.
  void remove(GpuOperation& op) noexcept;
  /// True if the host group has all calls of earlier operations in this lane, and all ranks have
  /// entered the last rendezvous of those from GPU to GPU.
  [[nodiscard]] bool is_next(const GpuOperation& op) const noexcept;
  /// The last operation from GPU to GPU whose result still goes to its tensors; null: none.
  [[nodiscard]] const GpuOperation* last_returning() const noexcept;
  /// True if an operation has host calls that are not submitted yet: later calls may have to wait.
  [[nodiscard]] bool has_waiting() const noexcept {
    return waiting_.load(std::memory_order_acquire) != 0;  // pairs with `all_submitted`
  }

  // ---- Errors

  /// "rank 3 on node-1, pid 17".
  [[nodiscard]] std::string this_rank() const;
  /// The error of an operation that runs here, as its caller gets it.
  [[nodiscard]] virtual Outcome error_of(const GpuOperation& op, Outcome outcome) const;

  // ---- The end

  /// Drops the host group. Operations that run there end with its last reference.
  void leave() noexcept;
  /// Gives the shared memory back, after all operations.
  void release() noexcept;

 private:
  std::vector<GpuOperation*> order_;
  std::atomic<int> waiting_{0};  ///< operations with `unsubmitted`; written under the lock
};

}  // namespace tutti::gpu
