#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace tutti::torch_plugin {

/// A function of the user's that is told of each operation of a group when the operation has ended,
/// well or not: on the progress thread as a rule, under no lock.
class CompletionHook final : public std::enable_shared_from_this<CompletionHook> {
 public:
  using Function = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;
  using Clock = std::chrono::steady_clock;

  explicit CompletionHook(Function function) : function_(std::move(function)) {}

  /// Calls the function when `work`, which began at `begin`, has ended.
  void watch(c10d::Work& work, Clock::time_point begin);
  /// Waits until the function has returned for all operations that are watched. ValueError in the
  /// function itself and in what is chained to a future, which would wait for themselves.
  void wait();

 private:
  void call(const std::shared_ptr<c10d::WorkInfo>& ended) noexcept;

  Function function_;
  std::mutex mutex_;
  std::condition_variable fewer_;
  std::size_t pending_ = 0;
};

}  // namespace tutti::torch_plugin
