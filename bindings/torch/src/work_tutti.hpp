#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <tutti/error.hpp>
#include <tutti/work.hpp>

#include "call_stream.hpp"

namespace tutti::torch_plugin {

/// True while this thread runs what is chained to a future. Until it returns, no other future
/// completes on the progress thread.
[[nodiscard]] bool in_chain() noexcept;

/// What c10d shall know of an operation beside its end.
struct Operation {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;  ///< for the profiler
  std::vector<at::Tensor> inputs = {};
  std::vector<at::Tensor> outputs = {};             ///< the result, and the value of the future
  std::optional<CallStream> stream = std::nullopt;  ///< of a call with tensors of a GPU
};

/// Operations that c10d sees as one. It owns their tensors until they are done, even if nobody
/// holds it any more. Any thread may wait, poll or ask for the future.
///
/// Tensors of a GPU: `wait` without a limit returns when the CPUs are done, and orders the result
/// before what the current stream of its thread is given next, each time it is called. It is
/// complete, and so is the future, when the result is on the GPU.
class WorkTutti final : public c10d::Work {
 public:
  WorkTutti(int rank, Operation operation, std::uint64_t sequence);
  ~WorkTutti() override;

  /// Adds an operation that was started.
  void add(tutti::Work work);
  /// The same for one operation of several that are coalesced.
  void add(tutti::Work work, Operation operation);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  /// As `wait`, and the host waits, too, until the result is on the GPU.
  void synchronize() override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  struct Kept;
  static void done(void* context, const Outcome& status) noexcept;
  bool poll() const;
  void settle() const;
  void settle_in_order();
  void rethrow() const;
  void add_stream(std::optional<CallStream> stream);
  bool complete_later();
  void wait_on_host();
  static void complete_apart(c10::intrusive_ptr<WorkTutti> self);
  void complete_future();
  void fail_future(const std::exception_ptr& problem);

  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> outputs_;
  std::uint64_t sequence_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  ///< made when somebody asks for it
  std::atomic<std::size_t> running_{0};             ///< operations that the future waits for
  std::atomic_flag has_failed_;                     ///< a callback has told a failure
  Outcome failure_;                                 ///< the first one

  /// A tutti::Work belongs to one thread at a time.
  mutable std::timed_mutex waiting_;
  mutable std::vector<tutti::Work> works_;
  std::vector<CallStream> streams_;  ///< those of the calls, once each; constant once `settled_`
  mutable std::atomic<bool> settled_{false};
};

}  // namespace tutti::torch_plugin
