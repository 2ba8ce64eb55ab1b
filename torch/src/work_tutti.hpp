#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <tutti/process_group.hpp>

namespace tutti::torch_plugin {

/// Operations that c10d sees as one. Owns its tensors until they are done, even when nobody holds
/// it.
class WorkTutti final : public c10d::Work {
 public:
  /// Submits `calls`, in their order. `tensors`: all that they touch, and the future's value.
  static c10::intrusive_ptr<WorkTutti> start(ProcessGroup& group, std::vector<Collective> calls,
                                             std::optional<std::chrono::nanoseconds> timeout,
                                             std::vector<at::Tensor> tensors, c10d::OpType type);
  WorkTutti(const ProcessGroup& group, std::vector<at::Tensor> tensors, c10d::OpType type);
  ~WorkTutti() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  static void done(void* context, const Status& status) noexcept;

  ProcessGroup group_;  ///< with the last handle of a group its callbacks would go
  std::vector<at::Tensor> tensors_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  mutable std::mutex
      waiting_;  ///< c10d lets any thread wait; a tutti::Work belongs to one at a time
  std::vector<tutti::Work> works_;
  // Of the progress thread alone, until the future is completed.
  std::size_t running_ = 0;
  Status first_failure_;
};

}  // namespace tutti::torch_plugin
