#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <tutti/init.hpp>
#include <tutti/options.hpp>
#include <tutti/process_group.hpp>
#include <tutti/work.hpp>

// tutti for LibTorch: a group of ranks whose operations take tensors. Errors are torch's classes:
// c10::ValueError and c10::TypeError at the call, c10::DistNetworkError (a rank is lost) and
// c10::DistBackendError (timeout, disagreement, abort) from the Work. Their texts name the rank.
namespace tutti::torch {

/// The caller's end of one operation; it keeps the tensors alive until the operation is done.
///
/// Destroying it waits for the operation, as that of tutti::Work.
class [[nodiscard]] Work {
 public:
  Work() noexcept = default;
  /// Takes over an operation that was started on these tensors.
  Work(tutti::Work work, std::vector<at::Tensor> tensors) noexcept
      : tensors_(std::move(tensors)), work_(std::move(work)) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work() = default;

  /// Returns when the tensors are usable. Throws what went wrong.
  void wait();
  /// Waits at most `limit`; true when done, well or badly.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);
  /// Done, well or badly? Never blocks, and makes sure that the operation runs without a waiter.
  [[nodiscard]] bool done() const;
  /// Of a recv that is done: the rank of the group that sent. Anything else: -1.
  [[nodiscard]] int source_rank() const noexcept;

 private:
  std::vector<at::Tensor> tensors_;
  tutti::Work work_;  // destroyed before the tensors: it waits
};

/// tutti::ProcessGroup with tensors instead of views; the options are the same.
///
/// Tensors: strided, on the CPU, with strides in up to 8 dimensions; operations that combine values
///          take the dtypes that have arithmetic, all others take every dtype. Autograd does not
///          see the operations.
/// Threads, order, lifetime: those of tutti::ProcessGroup.
class ProcessGroup {
 public:
  /// The same group, for tensors.
  explicit ProcessGroup(tutti::ProcessGroup group) noexcept : group_(std::move(group)) {}
  /// False for a handle without a group, as that of tutti::ProcessGroup.
  explicit operator bool() const noexcept { return static_cast<bool>(group_); }

  [[nodiscard]] int rank() const noexcept { return group_.rank(); }
  [[nodiscard]] int size() const noexcept { return group_.size(); }
  /// The group itself, for what has no tensors.
  [[nodiscard]] tutti::ProcessGroup& group() noexcept { return group_; }

  /// Combines the tensors of all ranks into each of them; all ranks get the same bits.
  Work all_reduce(const at::Tensor& tensor, const AllReduceOptions& options = {});
  /// The same for several tensors of one dtype in one operation.
  Work all_reduce_coalesced(const std::vector<at::Tensor>& tensors,
                            const AllReduceOptions& options = {});
  /// Copies the root's tensor to every other rank's.
  Work broadcast(const at::Tensor& tensor, const BroadcastOptions& options = {});
  /// The same for several tensors of one dtype in one operation.
  Work broadcast_coalesced(const std::vector<at::Tensor>& tensors,
                           const BroadcastOptions& options = {});
  /// Combines the tensors of all ranks into the root's.
  Work reduce(const at::Tensor& tensor, const ReduceOptions& options = {});
  /// Puts the inputs of all ranks, in the order of ranks, into everybody's output.
  Work all_gather(const at::Tensor& output, const at::Tensor& input,
                  const AllGatherOptions& options = {});
  /// The same into one tensor for each rank.
  Work all_gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input,
                  const AllGatherOptions& options = {});
  /// Puts the inputs of all ranks into the root's tensors, one for each rank; others give none.
  Work gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input,
              const GatherOptions& options = {});
  /// Hands out the root's tensors, one for each rank; others give none.
  Work scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
               const ScatterOptions& options = {});
  /// Combines the inputs of all ranks and gives block r of the result to rank r.
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                      const ReduceScatterOptions& options = {});
  /// The same from one tensor for each rank.
  Work reduce_scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                      const ReduceScatterOptions& options = {});
  /// Sends block r of the input to rank r, and gets block r of the output from it.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input,
                  const AllToAllOptions& options = {});
  /// The same with one tensor for each rank.
  Work all_to_all(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                  const AllToAllOptions& options = {});
  /// Done when every rank has called it.
  Work barrier(const BarrierOptions& options = {});
  /// A barrier that names the ranks that have not come; blocks.
  void monitored_barrier(const MonitoredBarrierOptions& options = {});

  /// Sends a tensor to a rank; returns when the tensor may be used again.
  void send(const at::Tensor& tensor, int dst, const SendOptions& options = {});
  /// Receives a tensor from a rank, or any_source. Returns the rank that sent it.
  int recv(const at::Tensor& tensor, int src, const RecvOptions& options = {});
  /// As `send`, without waiting.
  Work isend(const at::Tensor& tensor, int dst, const SendOptions& options = {});
  /// As `recv`, without waiting.
  Work irecv(const at::Tensor& tensor, int src, const RecvOptions& options = {});

  /// A group of some of the ranks; every rank calls it. Ranks that are not in the list get a handle
  /// without a group.
  [[nodiscard]] ProcessGroup new_group(std::span<const int> ranks,
                                       const NewGroupOptions& options = {});
  [[nodiscard]] ProcessGroup new_group(std::initializer_list<int> ranks,
                                       const NewGroupOptions& options = {}) {
    return new_group(std::span<const int>(ranks.begin(), ranks.size()), options);
  }
  /// Breaks the group here and on every other member.
  void abort(std::string_view reason);

 private:
  tutti::ProcessGroup group_;
};

/// Makes the group of all processes of the job, as tutti::init_process_group does: from `options`,
/// or the variables that tuttirun and torchrun set.
[[nodiscard]] ProcessGroup init_process_group(const InitOptions& options = {});

}  // namespace tutti::torch
