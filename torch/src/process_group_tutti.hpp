#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <tutti/process_group.hpp>

namespace tutti::torch_plugin {

/// A c10d backend on a world of tutti. CPU tensors only.
///
/// Futures complete on the progress thread (decision F4); `wait` drives in the caller.
class ProcessGroupTutti final : public c10d::Backend {
 public:
  /// Uses the store for one exchange, now and never again. Blocks until all ranks have come.
  ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                    std::chrono::milliseconds timeout);

  const std::string getBackendName() const override { return "tutti"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  /// One broadcast per rank.
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  ProcessGroup group_;
};

}  // namespace tutti::torch_plugin
