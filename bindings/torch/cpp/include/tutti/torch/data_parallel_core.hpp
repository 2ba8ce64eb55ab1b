#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <tutti/torch/comm_hooks.hpp>
#include <tutti/torch/process_group.hpp>

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace tutti::torch {

/// The options of a DistributedDataParallel. Equal on all ranks.
struct DataParallelOptions {
  std::size_t first_bucket_bytes = std::size_t{1} << 20;  ///< small, so that it leaves early
  std::size_t bucket_bytes = std::size_t{25} << 20;       ///< of all other buckets
  /// Rank 0's buffers go to all ranks before each forward that trains.
  bool broadcast_buffers = true;
  /// Look, after each forward, for parameters that its outputs do not depend on.
  bool find_unused_parameters = false;
  /// All steps use the parameters that the first one uses, also if some are unused;
  /// find_unused_parameters does nothing then. A backward may run within another, and bring several
  /// gradients for a parameter.
  bool static_graph = false;
  /// Let the gradients lie in the buckets, which saves their memory and a copy.
  bool gradient_as_bucket_view = false;
};

/// The options of a join. Equal on all ranks.
struct JoinOptions {
  /// Divide gradients by the size of the group; else by the number of ranks that have inputs.
  bool divide_by_initial_world_size = true;
  /// Throw on all ranks as soon as one has no more inputs.
  bool throw_on_early_termination = false;
};

/// The counts of the last step that was reduced.
struct StepCounts {
  std::size_t buckets = 0;
  /// Buckets that were on their way while other gradients were still being computed.
  std::size_t overlapped = 0;
};

class Reducer;

/// The part of DistributedDataParallel that does not depend on the module's type.
class DataParallelCore {
 public:
  /// Compares the module with those of the other ranks, and gives all ranks rank 0's values.
  DataParallelCore(std::shared_ptr<::torch::nn::Module> module, ProcessGroup group,
                   const DataParallelOptions& options);
  DataParallelCore(const DataParallelCore&) = delete;
  DataParallelCore& operator=(const DataParallelCore&) = delete;
  ~DataParallelCore();

  /// Before the module's forward, with the buffers of the ranks made alike.
  void before_forward();
  /// After it; `outputs` are what backward will start from.
  void after_forward(const std::vector<at::Tensor>& outputs);
  /// Averages gradients from the next forward on; returns what was said before.
  bool set_sync(bool sync) noexcept;
  /// A hook may be registered once, before the first forward.
  void register_comm_hook(CommHook hook);
  /// Runs `loop` in which this rank may have fewer inputs than others.
  void join(const std::function<void()>& loop, const JoinOptions& options);
  /// Rank 0 writes parameters and buffers to a file; the others wait until it lies there.
  void save(const std::string& path);
  /// Rank 0 reads such a file, and all ranks get what it holds. If it cannot, or the file is of
  /// another model, all ranks throw and the model is as it was.
  void load(const std::string& path);
  [[nodiscard]] StepCounts last_step() const;
  /// Buckets of the running step whose all_reduce is done; 0 with a hook.
  [[nodiscard]] std::size_t reduced_buckets() const;
  [[nodiscard]] ProcessGroup& group() noexcept { return group_; }

 private:
  struct Turn;  // which ranks take part in a forward
  Turn agree_on_turn(bool has_input);
  void broadcast(const std::vector<at::Tensor>& tensors, int root);
  void shadow_others();
  /// Reads the file into this rank's module. Returns the problem, empty if there is none.
  std::string load_here(const std::string& path);
  /// Tells all ranks rank 0's problem; an empty text is none.
  void agree_on_problem(const std::string& problem);

  std::shared_ptr<::torch::nn::Module> module_;
  ProcessGroup group_;
  DataParallelOptions options_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  std::shared_ptr<Reducer> reducer_;
  bool sync_ = true;
  bool joining_ = false;
  JoinOptions join_;
  int last_with_input_ = -1;
};

}  // namespace tutti::torch
