#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <tutti/error.hpp>
#include <tutti/work.hpp>

namespace tutti::torch_plugin {

/// True while this thread runs what is chained to a future. Until it returns, no other future
/// completes on the progress thread.
[[nodiscard]] bool in_chain() noexcept;

/// What c10d shall know of an operation beside its end.
struct Operation {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;  ///< for the profiler
  std::vector<at::Tensor> inputs = {};
  std::vector<at::Tensor> outputs = {};  ///< the result, and the value of the future
};

/// Operations that c10d sees as one. It owns their tensors until they are done, even if nobody
/// holds it any more. Any thread may wait, poll or ask for the future.
class WorkTutti final : public c10d::Work {
 public:
  WorkTutti(int rank, Operation operation, std::uint64_t sequence);
  ~WorkTutti() override;

  /// Adds an operation that was started. `asynchronous`: nobody waits for it soon.
  void add(tutti::Work work, bool asynchronous);
  /// The same for one operation of several that are coalesced.
  void add(tutti::Work work, Operation operation);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  struct Kept;
  static void done(void* context, const Status& status) noexcept;
  bool poll() const;
  void settle() const;
  bool complete_later();
  void wait_quietly();
  static void complete_apart(c10::intrusive_ptr<WorkTutti> self);
  void complete_future();

  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> outputs_;
  std::uint64_t sequence_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  ///< made when somebody asks for it
  std::atomic<std::size_t> running_{0};             ///< operations that the future waits for
  Status failure_;                                  ///< the first one that a callback told

  /// A tutti::Work belongs to one thread at a time.
  mutable std::timed_mutex waiting_;
  mutable std::vector<tutti::Work> works_;
  mutable std::atomic<bool> settled_{false};
};

}  // namespace tutti::torch_plugin
