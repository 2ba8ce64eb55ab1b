#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <tutti/torch/data_parallel_core.hpp>

#include "buckets.hpp"
#include "static_graph.hpp"

namespace tutti::torch {

/// Averages the gradients of some parameters while backward computes them.
///
/// A step: `prepare` after forward; the engine of autograd calls back for each gradient; a bucket
/// whose gradients are all there is reduced, in the order of the buckets; the last gradient asks
/// autograd to call `finish` at the end of backward. With static_graph the first step reduces all
/// buckets there, when it knows which gradients come.
/// Threads: the callbacks may come on threads of autograd; one mutex guards all. It is held while a
///         step's hooks run and while it waits; a hook may ask what the step has done.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// The parameters are those with gradients, with their names for errors.
  Reducer(ProcessGroup group, std::vector<std::string> names, std::vector<at::Tensor> parameters,
          const DataParallelOptions& options);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  ~Reducer();

  /// Begins to listen to the parameters. Apart from the constructor, because callbacks hold weak
  /// references.
  void listen();
  /// Before forward: throws if the last step is not complete, and puts the buckets into the order
  /// in which the gradients of rank 0 came, once.
  void begin_forward();
  /// After forward: the next backward is a step.
  void prepare(const std::vector<at::Tensor>& outputs);
  /// The next backward is none.
  void pause();
  /// The same, unless a forward waits for its backward.
  void pause_between_steps();
  /// Takes part in a step of the others, with zeros.
  void shadow_step();
  /// Divide sums by this number; absent: by the size of the group.
  void set_divisor(std::optional<int> divisor);
  void set_hook(CommHook hook);
  [[nodiscard]] StepCounts last_step() const;
  [[nodiscard]] std::size_t reduced_buckets() const;

 private:
  class Listener;
  // A counted pointer, whose kind differs between versions of torch.
  using Accumulator = decltype(::torch::autograd::impl::grad_accumulator(at::Tensor()));

  /// The meaning of a gradient that comes now.
  enum class Awaits {
    nothing,    ///< it is this rank's own, as no_sync asks
    gradients,  ///< it is one of the step
    forward,    ///< an error: the step that it could belong to is complete
  };

  void on_gradient(std::size_t number);
  /// With static_graph: makes sure that `end_backward` is called once, at the end of the outermost
  /// backward if an output says when it begins.
  void await_end();
  void end_backward();
  void learn_graph();
  void begin_step();
  /// Runs a part of a step; if it throws, the step is marked as failed.
  template <class Part>
  void in_step(const Part& part);
  void accept(std::size_t number);
  void take(std::size_t number);
  void mark(std::size_t number);
  void launch(std::size_t index);
  void launch_usage();
  /// True if some parameters may be used by no rank.
  [[nodiscard]] bool tracks_usage() const noexcept;
  /// True if the ranks tell each other in this step what they use.
  [[nodiscard]] bool exchanges_usage() const noexcept;
  void finish();
  void wait_for_all();
  void hand_out(std::size_t number, const at::Tensor& view);
  void find_unused(const std::vector<at::Tensor>& outputs);
  void place_members();
  void rebuild();
  [[nodiscard]] std::string names_without_gradient() const;

  ProcessGroup group_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  DataParallelOptions options_;
  CommHook hook_;
  std::optional<int> divisor_;

  mutable std::recursive_mutex mutex_;
  std::vector<Accumulator> accumulators_;
  std::vector<std::uintptr_t> listeners_;  ///< of the accumulators, by their keys
  std::vector<Bucket> buckets_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  ///< bucket and position of each
  std::vector<bool> ready_;                                  ///< its gradient is in the bucket
  std::vector<std::size_t> unused_;
  std::optional<StaticGraph> graph_;
  std::vector<std::int32_t> used_;   ///< 1 if this rank has used it since the last step
  std::vector<std::int32_t> usage_;  ///< how many ranks have used it
  tutti::Work usage_work_;
  std::vector<std::size_t> arrivals_;
  std::size_t next_ = 0;  ///< the bucket that is reduced next
  std::size_t left_ = 0;  ///< gradients that have not come
  Awaits awaits_ = Awaits::nothing;
  bool begun_ = false;        ///< a gradient of this step has come
  bool end_awaited_ = false;  ///< autograd will call `end_backward`
  bool failed_ = false;
  bool stepped_ = false;
  bool rebuilt_ = false;
  StepCounts counts_;
  StepCounts last_;
};

}  // namespace tutti::torch
