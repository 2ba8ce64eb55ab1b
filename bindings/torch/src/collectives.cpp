#include <span>
#include <utility>

#include <tutti/stream.hpp>

#include "process_group_tutti.hpp"
#include "running.hpp"
#include "views.hpp"
#include "without_gil.hpp"

namespace tutti::torch_plugin {

TorchWork ProcessGroupTutti::broadcast(std::vector<at::Tensor>& tensors,
                                       const c10d::BroadcastOptions& options) {
  const TensorView view = view_to_move(single(tensors, "broadcast"), "broadcast");
  return run({OpType::BROADCAST, "tutti:broadcast", tensors, tensors}, [&](ProcessGroup& group) {
    return group.broadcast(view, {.root = root_of(options.rootRank, "broadcast"),
                                  .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::allreduce(std::vector<at::Tensor>& tensors,
                                       const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = single(tensors, "all_reduce");
  if (tensor.layout() == at::kSparse) return allreduce_sparse(tensors, options);
  const TensorView view = view_to_reduce(tensor, "all_reduce");
  const Reduction how = reduction_of(options.reduceOp, "all_reduce");
  return run({OpType::ALLREDUCE, "tutti:all_reduce", tensors, tensors}, [&](ProcessGroup& group) {
    return group.all_reduce(
        view, {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)});
  });
}

void ProcessGroupTutti::all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const WithoutGil unlocked;  // also where `group` goes, which may be the last of its world
  if (watching_.load(std::memory_order_acquire) != nullptr) {  // the hook is told of a Work
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    allreduce(tensors, options)->wait(kNoTimeout);
    return;
  }
  const TensorView view = view_to_reduce(tensor, "all_reduce");
  const Reduction how = reduction_of(op, "all_reduce");
  const StreamGuard on_it(handle_of(CallStream::of({tensor}, {}, "tutti:all_reduce")));
  ProcessGroup group = open("all_reduce");
  ++sequence_;
  with_torchs_exceptions([&] {
    try {
      group.all_reduce(view, {.op = how.op, .factor = how.factor}).wait();
    } catch (const Error& problem) {
      keep_if_in_use(problem.status(), {tensor});
      throw;
    }
  });
}

TorchWork ProcessGroupTutti::reduce(std::vector<at::Tensor>& tensors,
                                    const c10d::ReduceOptions& options) {
  const TensorView view = view_to_reduce(single(tensors, "reduce"), "reduce");
  const Reduction how = reduction_of(options.reduceOp, "reduce");
  return run({OpType::REDUCE, "tutti:reduce", tensors, tensors}, [&](ProcessGroup& group) {
    return group.reduce(view, {.root = root_of(options.rootRank, "reduce"),
                               .op = how.op,
                               .factor = how.factor,
                               .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                       std::vector<at::Tensor>& inputs,
                                       const c10d::AllgatherOptions& options) {
  const TensorView input = view_to_move(single(inputs, "all_gather"), "all_gather");
  const std::vector<at::Tensor>& list = one_per_rank(outputs, getSize(), "all_gather");
  const std::vector<TensorView> views = views_to_move(list, "all_gather");
  return run({OpType::ALLGATHER, "tutti:all_gather", inputs, list}, [&](ProcessGroup& group) {
    return group.all_gather(std::span(views), input, {.timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::_allgather_base(at::Tensor& output, at::Tensor& input,
                                             const c10d::AllgatherOptions& options) {
  const TensorView to = view_to_move(output, "all_gather_into_tensor");
  const TensorView from = view_to_move(input, "all_gather_into_tensor");
  return run({OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", {input}, {output}},
             [&](ProcessGroup& group) {
               return group.all_gather(to, from, {.timeout = timeout_of(options.timeout)});
             });
}

TorchWork ProcessGroupTutti::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                    std::vector<at::Tensor>& inputs,
                                    const c10d::GatherOptions& options) {
  const TensorView input = view_to_move(single(inputs, "gather"), "gather");
  Operation operation{OpType::GATHER, "tutti:gather", inputs};
  std::vector<TensorView> views;
  if (getRank() == options.rootRank) {
    operation.outputs = one_per_rank(outputs, getSize(), "gather");
    views = views_to_move(operation.outputs, "gather");
  } else {
    TORCH_CHECK_VALUE(outputs.empty() || outputs.front().empty(),
                      "tutti: gather: only the destination, rank ", options.rootRank,
                      ", may give a list of outputs");
  }
  return run(std::move(operation), [&](ProcessGroup& group) {
    return group.gather(
        std::span<const TensorView>(views), input,
        {.root = root_of(options.rootRank, "gather"), .timeout = timeout_of(options.timeout)});
  });
}

#if TUTTI_TORCH_HAS_GATHER_SINGLE
TorchWork ProcessGroupTutti::gather_single(at::Tensor& output, at::Tensor& input,
                                           const c10d::GatherOptions& options) {
  const TensorView from = view_to_move(input, "gather_single");
  Operation operation{OpType::GATHER, "tutti:gather_single", {input}};
  TensorView to;  // elsewhere torch gives an empty tensor
  if (getRank() == options.rootRank) {
    operation.outputs = {output};
    to = view_to_move(output, "gather_single");
  }
  return run(std::move(operation), [&](ProcessGroup& group) {
    return group.gather(to, from,
                        {.root = root_of(options.rootRank, "gather_single"),
                         .timeout = timeout_of(options.timeout)});
  });
}
#endif

TorchWork ProcessGroupTutti::scatter(std::vector<at::Tensor>& outputs,
                                     std::vector<std::vector<at::Tensor>>& inputs,
                                     const c10d::ScatterOptions& options) {
  const TensorView output = view_to_move(single(outputs, "scatter"), "scatter");
  Operation operation{OpType::SCATTER, "tutti:scatter", {}, outputs};
  std::vector<TensorView> views;
  if (getRank() == options.rootRank) {
    operation.inputs = one_per_rank(inputs, getSize(), "scatter");
    views = views_to_move(operation.inputs, "scatter");
  } else {
    TORCH_CHECK_VALUE(inputs.empty() || inputs.front().empty(),
                      "tutti: scatter: only the source, rank ", options.rootRank,
                      ", may give a list of inputs");
  }
  return run(std::move(operation), [&](ProcessGroup& group) {
    return group.scatter(
        output, std::span<const TensorView>(views),
        {.root = root_of(options.rootRank, "scatter"), .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::reduce_scatter(std::vector<at::Tensor>& outputs,
                                            std::vector<std::vector<at::Tensor>>& inputs,
                                            const c10d::ReduceScatterOptions& options) {
  const TensorView output = view_to_reduce(single(outputs, "reduce_scatter"), "reduce_scatter");
  const std::vector<at::Tensor>& list = one_per_rank(inputs, getSize(), "reduce_scatter");
  const std::vector<TensorView> views = views_to_reduce(list, "reduce_scatter");
  const Reduction how = reduction_of(options.reduceOp, "reduce_scatter");
  return run({OpType::REDUCE_SCATTER, "tutti:reduce_scatter", list, outputs},
             [&](ProcessGroup& group) {
               return group.reduce_scatter(
                   output, std::span(views),
                   {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)});
             });
}

TorchWork ProcessGroupTutti::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                  const c10d::ReduceScatterOptions& options) {
  const TensorView to = view_to_reduce(output, "reduce_scatter_tensor");
  const TensorView from = view_to_reduce(input, "reduce_scatter_tensor");
  const Reduction how = reduction_of(options.reduceOp, "reduce_scatter_tensor");
  return run({OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", {input}, {output}},
             [&](ProcessGroup& group) {
               return group.reduce_scatter(
                   to, from,
                   {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)});
             });
}

// Always with splits: where one rank of the engine gives them, all must, and in torch a rank with
// equal ones need not.
TorchWork ProcessGroupTutti::alltoall_base(at::Tensor& output, at::Tensor& input,
                                           std::vector<int64_t>& output_splits,
                                           std::vector<int64_t>& input_splits,
                                           const c10d::AllToAllOptions& options) {
  const TensorView to = view_to_move(output, "all_to_all_single");
  const TensorView from = view_to_move(input, "all_to_all_single");
  const std::vector<std::size_t> expected =
      split_counts(output, output_splits, getSize(), "output");
  const std::vector<std::size_t> sent = split_counts(input, input_splits, getSize(), "input");
  return run({OpType::ALLTOALL_BASE, "tutti:all_to_all", {input}, {output}},
             [&](ProcessGroup& group) {
               return group.all_to_all(to, from,
                                       {.output_splits = expected,
                                        .input_splits = sent,
                                        .timeout = timeout_of(options.timeout)});
             });
}

TorchWork ProcessGroupTutti::alltoall(std::vector<at::Tensor>& outputs,
                                      std::vector<at::Tensor>& inputs,
                                      const c10d::AllToAllOptions& options) {
  const std::vector<TensorView> to = views_to_move(outputs, "all_to_all");
  const std::vector<TensorView> from = views_to_move(inputs, "all_to_all");
  const auto size = static_cast<std::size_t>(getSize());
  TORCH_CHECK_VALUE(outputs.size() == size && inputs.size() == size,
                    "tutti: all_to_all: both lists must have a tensor for each of the ", size,
                    " ranks; the outputs are ", outputs.size(), ", the inputs ", inputs.size());
  return run({OpType::ALLTOALL, "tutti:all_to_all", inputs, outputs}, [&](ProcessGroup& group) {
    return group.all_to_all(std::span(to), std::span(from),
                            {.timeout = timeout_of(options.timeout)});
  });
}

}  // namespace tutti::torch_plugin
