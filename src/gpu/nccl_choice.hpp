#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>

#include "gpu/gpu_set.hpp"

namespace tutti::gpu {

/// Decides once per group whether its GPU collectives run on NCCL or are staged through host
/// memory. NCCL is chosen if no two ranks share a GPU. The ranks agree by collectives of the native
/// engine, so the agreement has a timeout and names a missing rank. The NCCL group is made then, on
/// top of a host group of its own.
///
/// Threads: one at a time, under GpuSet::mutex, except for `opened`.
class NcclChoice {
 public:
  enum class State : std::uint8_t {
    unknown,
    asking,  ///< the ranks tell each other their GPUs
    making,  ///< the host group that NCCL needs is being made
    host,    ///< NCCL is not used
    nccl,    ///< collectives that NCCL supports run there
  };

  NcclChoice(Backend& cpus, const NcclOptions& options)
      : cpus_(cpus), options_(options), state_(options.make ? State::unknown : State::host) {}
  ~NcclChoice() { release(); }
  NcclChoice(const NcclChoice&) = delete;
  NcclChoice& operator=(const NcclChoice&) = delete;

  [[nodiscard]] State state() const noexcept { return state_; }
  /// True if NCCL may run this call. All ranks get the same answer.
  [[nodiscard]] bool may_take(const Collective& call) const;

  /// The next host collective of the agreement. The caller has compared the calls of all ranks
  /// before. `gpu`: the GPU of this rank.
  [[nodiscard]] Result<Collective> next(cuda::CudaApi& cuda, const Gpu& gpu,
                                        const std::string& group);
  /// Takes the result of that collective, which has succeeded.
  [[nodiscard]] Outcome take(const std::string& group);

  /// The NCCL group will be a part of `owner`.
  void set_owner(Backend& owner) noexcept {
    owner_ = &owner;
    if (nccl_ != nullptr) nccl_->set_owner(owner);
  }

  /// Counts the calls that wait until they may go to NCCL (NcclPath).
  void add_waiting(int calls) noexcept { waiting_ += calls; }
  /// True while an earlier call may still go to NCCL.
  [[nodiscard]] bool has_waiting() const noexcept { return opened() == nullptr && waiting_ != 0; }
  /// New calls may go to NCCL at once, when no earlier one waits any more.
  void open_if_none_waits() noexcept {
    if (waiting_ == 0) opened_.store(nccl_, std::memory_order_release);  // pairs with `opened`
  }
  /// The NCCL group. Null while earlier calls wait, or if the group does not use NCCL. Any thread.
  [[nodiscard]] Backend* opened() const noexcept {
    return opened_.load(std::memory_order_acquire);  // pairs with `open_if_none_waits`
  }
  /// The NCCL group; null until it is made.
  [[nodiscard]] Backend* nccl() const noexcept { return nccl_; }
  /// Drops the NCCL group. Call it without GpuSet::mutex: it may wait for operations.
  void release() noexcept;

 private:
  /// A rank sends this to the others.
  struct Note {
    std::uint64_t host = 0;  ///< one number per boot; 0: this rank cannot tell its GPU
    std::uint64_t gpu = 0;
  };
  /// Why the ranks cannot use NCCL; empty: they can.
  [[nodiscard]] std::string why_not() const;

  Backend& cpus_;
  const NcclOptions& options_;
  State state_;
  Note mine_;
  std::vector<Note> all_;
  Backend* mesh_ = nullptr;  ///< holds a reference, as `nccl_` does
  Backend* nccl_ = nullptr;
  Backend* owner_ = nullptr;
  int waiting_ = 0;
  std::atomic<Backend*> opened_{nullptr};
};

}  // namespace tutti::gpu
