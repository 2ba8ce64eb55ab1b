#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <torch/headeronly/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <tutti/process_group.hpp>

#include "completion_hook.hpp"
#include "work_tutti.hpp"

// Parts of c10d::Backend that only some versions of torch have; each version that is served has
// all else.
#define TUTTI_TORCH_HAS_GATHER_SINGLE (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14)
#define TUTTI_TORCH_CLONES_OPTIONS (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14)

namespace tutti::torch_plugin {

/// A c10d backend on a group of tutti. It takes tensors of the CPU and of NVIDIA GPUs; a call with
/// those of a GPU is on the current stream of torch.
///
/// Errors: what is wrong with a call is a ValueError or TypeError before anything is sent; all else
///         comes from the Work, as DistBackendError, DistNetworkError or DistStoreError.
class ProcessGroupTutti final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options("tutti", limit) {}
#if TUTTI_TORCH_CLONES_OPTIONS
    c10::intrusive_ptr<c10d::Backend::Options> clone() const override {
      return c10::make_intrusive<Options>(*this);
    }
#endif
  };

  ProcessGroupTutti(ProcessGroup group, c10::intrusive_ptr<Options> options);
  ~ProcessGroupTutti() override;

  const std::string getBackendName() const override { return "tutti"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }

  // collectives.cpp
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  /// An all_reduce without a Work. On a GPU it returns when the stream is ordered.
  void all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op);
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs,
                                        std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override;
#if TUTTI_TORCH_HAS_GATHER_SINGLE
  c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor& output, at::Tensor& input,
                                               const c10d::GatherOptions& options) override;
#endif
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs,
                                         std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs,
                                          std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override;

  // coalesced.cpp: several tensors in one operation for each dtype
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::ReduceScatterOptions& options) override;

  // sparse.cpp: the sum of sparse COO tensors. Runs during the call.
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceOptions& options) override;

  // process_group_tutti.cpp
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override;
  /// With a GPU, of `device_ids` or bound to the group: first waits for its current stream.
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  /// Leaves the group broken where a rank has not come, as every timeout does.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  /// Each rank counts its collectives, from 0; the engine compares the calls themselves.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  /// Until `endCoalescing` operations start as ever, and c10d sees them as one.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  /// One hook for a group, told of each operation that begins afterwards.
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  /// Waits until the hook was told of all operations that have begun.
  void waitForPendingWorks() override;

  /// Every rank of the group calls it. A rank that `ranks` does not name gets null.
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

  void setTimeout(std::chrono::milliseconds timeout) override;
  c10d::ErrorType getError() override;
  /// Breaks the group on all ranks: what runs fails there.
  void abort() override;
  /// Leaves the group. Operations that run go on; later calls are refused.
  void shutdown() override;

  /// Starts an operation: `start(group)` gives its tutti::Work. Public for bindings of operations
  /// that c10d has no name for (module.cpp); running.hpp has it.
  template <class Start>
  c10::intrusive_ptr<c10d::Work> run(Operation operation, const Start& start);

 private:
  /// The same for several operations: `start(group, add)` gives each Work to `add`.
  template <class Start>
  c10::intrusive_ptr<c10d::Work> run_each(Operation operation, const Start& start);
  [[nodiscard]] ProcessGroup open(const char* operation);
  [[nodiscard]] c10::intrusive_ptr<WorkTutti> batch();
  void give_up_batch();

  std::mutex mutex_;
  ProcessGroup group_;                   ///< none once it was shut down
  c10::intrusive_ptr<WorkTutti> batch_;  ///< between startCoalescing and endCoalescing
  CompletionHook::Clock::time_point batch_began_;
  std::shared_ptr<CompletionHook> hook_;            ///< set once, under the mutex
  std::atomic<CompletionHook*> watching_{nullptr};  ///< the same, read for each operation
  c10::intrusive_ptr<Options> options_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace tutti::torch_plugin
