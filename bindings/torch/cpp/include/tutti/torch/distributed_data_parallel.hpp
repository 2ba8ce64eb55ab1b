#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include <tutti/torch/data_parallel_core.hpp>

namespace tutti::torch {

namespace detail {

/// Adds the tensors of an output: a tensor, or a tuple, pair or vector of outputs.
template <class Output>
void add_tensors(const Output& output, std::vector<at::Tensor>& to) {
  if constexpr (std::is_convertible_v<const Output&, const at::Tensor&>) {
    to.push_back(output);
  } else if constexpr (requires { std::tuple_size<Output>::value; }) {
    std::apply([&](const auto&... parts) { (add_tensors(parts, to), ...); }, output);
  } else {
    static_assert(
        requires { output.begin(); },
        "forward must return a tensor, or a tuple, pair or vector of what holds tensors");
    for (const auto& part : output) add_tensors(part, to);
  }
}

}  // namespace detail

/// A module whose replicas on all ranks train as one: each rank computes the gradients of its part
/// of the batch, and all get their average while backward still runs.
///
/// Make it on all ranks, train by its `forward` and by backward, and give the optimizer its
/// `parameters()`. Each forward that trains belongs to one backward.
/// Errors:   c10::ValueError on all ranks if a rank's module or options differ from rank 0's; it
///           names the rank and what differs. A lost rank or a timeout leaves backward as
///           c10::DistNetworkError or c10::DistBackendError, whose text names the rank.
/// Threads:  one at a time.
template <class Net>
class DistributedDataParallel : public ::torch::nn::Module {
 public:
  /// Compares the modules, and gives all ranks the parameters and buffers of rank 0.
  explicit DistributedDataParallel(std::shared_ptr<Net> module, ProcessGroup group,
                                   const DataParallelOptions& options = {})
      : module_(register_module("module", std::move(module))),
        core_(module_, std::move(group), options) {}

  /// The module's forward. It exchanges what training needs, unless gradients are off or a NoSync
  /// lives: then no other rank has to call it.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    core_.before_forward();
    auto output = module_->forward(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor> tensors;
    detail::add_tensors(output, tensors);
    core_.after_forward(tensors);
    return output;
  }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// While it lives, gradients stay with their rank and add up; the first backward after it
  /// averages the sums.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DataParallelCore& core) : core_(core), before_(core.set_sync(false)) {}
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { core_.set_sync(before_); }

   private:
    DataParallelCore& core_;
    bool before_;
  };
  /// Stops averaging until what is returned is destroyed. Forward must be inside, too.
  NoSync no_sync() { return NoSync(core_); }

  /// Replaces the all_reduce of each bucket. Once, before the first forward.
  void register_comm_hook(CommHook hook) { core_.register_comm_hook(std::move(hook)); }

  /// Runs a training loop for which the ranks have unequal numbers of inputs: a rank whose loop
  /// has ended serves the others until all have ended, then all get the last one's values.
  void join(const std::function<void()>& loop, const JoinOptions& options = {}) {
    core_.join(loop, options);
  }

  /// Rank 0 writes the module as ::torch::save does; all ranks call it, and return when it is
  /// written. All ranks throw what went wrong.
  void save_checkpoint(const std::string& path) { core_.save(path); }
  /// Rank 0 reads such a file; all ranks get its values.
  void load_checkpoint(const std::string& path) { core_.load(path); }

  [[nodiscard]] const std::shared_ptr<Net>& module() const noexcept { return module_; }
  /// How many buckets the last step had, and how many overlapped with backward.
  [[nodiscard]] StepCounts last_step() const { return core_.last_step(); }
  /// Buckets of the running step whose all_reduce is done, for hooks of tensors in backward;
  /// 0 with a communication hook.
  [[nodiscard]] std::size_t reduced_buckets() const { return core_.reduced_buckets(); }
  [[nodiscard]] ProcessGroup& group() noexcept { return core_.group(); }

 private:
  std::shared_ptr<Net> module_;
  DataParallelCore core_;
};

}  // namespace tutti::torch
