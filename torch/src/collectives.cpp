#include <span>
#include <utility>

#include "process_group_tutti.hpp"
#include "running.hpp"
#include "views.hpp"
#include "without_gil.hpp"

namespace tutti::torch_plugin {

TorchWork ProcessGroupTutti::broadcast(std::vector<at::Tensor>& tensors,
                                       const c10d::BroadcastOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("broadcast");
  const TensorView view = view_of(single(tensors, kThis), kThis);
  return run(kThis.on(tensors, tensors), options.asyncOp, [&](ProcessGroup& group) {
    return group.broadcast(
        view, {.root = root_of(options.rootRank, kThis), .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::allreduce(std::vector<at::Tensor>& tensors,
                                       const c10d::AllreduceOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("all_reduce");
  const at::Tensor& tensor = single(tensors, kThis);
  if (tensor.layout() == at::kSparse) return allreduce_sparse(tensors, options);
  const TensorView view = view_of(tensor, kThis);
  const Reduction how = reduction_of(options.reduceOp, kThis);
  return run(kThis.on(tensors, tensors), options.asyncOp, [&](ProcessGroup& group) {
    return group.all_reduce(
        view, {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)});
  });
}

void ProcessGroupTutti::all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  static constexpr TorchOperation kThis = torch_operation("all_reduce");
  if (watching_.load(std::memory_order_acquire) != nullptr) {  // the hook is told of a Work
    const WithoutGil unlocked;
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    allreduce(tensors, options)->wait(kNoTimeout);
    return;
  }
  const TensorView view = view_of(tensor, kThis);
  const Reduction how = reduction_of(op, kThis);
  ProcessGroup group = open("all_reduce");
  ++sequence_;
  const WithoutGil unlocked;
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
  static constexpr TorchOperation kThis = torch_operation("reduce");
  const TensorView view = view_of(single(tensors, kThis), kThis);
  const Reduction how = reduction_of(options.reduceOp, kThis);
  return run(kThis.on(tensors, tensors), options.asyncOp, [&](ProcessGroup& group) {
    return group.reduce(view, {.root = root_of(options.rootRank, kThis),
                               .op = how.op,
                               .factor = how.factor,
                               .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                       std::vector<at::Tensor>& inputs,
                                       const c10d::AllgatherOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("all_gather");
  const TensorView input = view_of(single(inputs, kThis), kThis);
  const std::vector<at::Tensor>& list = one_per_rank(outputs, getSize(), kThis);
  const std::vector<TensorView> views = views_of(list, kThis);
  return run(kThis.on(inputs, list), options.asyncOp, [&](ProcessGroup& group) {
    return group.all_gather(std::span(views), input, {.timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::_allgather_base(at::Tensor& output, at::Tensor& input,
                                             const c10d::AllgatherOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("all_gather_into_tensor");
  const TensorView to = view_of(output, kThis);
  const TensorView from = view_of(input, kThis);
  return run(kThis.on({input}, {output}), options.asyncOp, [&](ProcessGroup& group) {
    return group.all_gather(to, from, {.timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                    std::vector<at::Tensor>& inputs,
                                    const c10d::GatherOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("gather");
  const TensorView input = view_of(single(inputs, kThis), kThis);
  Operation operation = kThis.on(inputs);
  std::vector<TensorView> views;
  if (getRank() == options.rootRank) {
    operation.outputs = one_per_rank(outputs, getSize(), kThis);
    views = views_of(operation.outputs, kThis);
  } else {
    TORCH_CHECK_VALUE(outputs.empty() || outputs.front().empty(),
                      "tutti: gather: only the destination, rank ", options.rootRank,
                      ", may give a list of outputs");
  }
  return run(std::move(operation), options.asyncOp, [&](ProcessGroup& group) {
    return group.gather(
        std::span<const TensorView>(views), input,
        {.root = root_of(options.rootRank, kThis), .timeout = timeout_of(options.timeout)});
  });
}

#if TUTTI_TORCH_HAS_GATHER_SINGLE
TorchWork ProcessGroupTutti::gather_single(at::Tensor& output, at::Tensor& input,
                                           const c10d::GatherOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("gather_single");
  const TensorView from = view_of(input, kThis);
  Operation operation = kThis.on({input});
  TensorView to;  // elsewhere torch gives an empty tensor
  if (getRank() == options.rootRank) {
    operation.outputs = {output};
    to = view_of(output, kThis);
  }
  return run(std::move(operation), options.asyncOp, [&](ProcessGroup& group) {
    return group.gather(
        to, from,
        {.root = root_of(options.rootRank, kThis), .timeout = timeout_of(options.timeout)});
  });
}
#endif

TorchWork ProcessGroupTutti::scatter(std::vector<at::Tensor>& outputs,
                                     std::vector<std::vector<at::Tensor>>& inputs,
                                     const c10d::ScatterOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("scatter");
  const TensorView output = view_of(single(outputs, kThis), kThis);
  Operation operation = kThis.on({}, outputs);
  std::vector<TensorView> views;
  if (getRank() == options.rootRank) {
    operation.inputs = one_per_rank(inputs, getSize(), kThis);
    views = views_of(operation.inputs, kThis);
  } else {
    TORCH_CHECK_VALUE(inputs.empty() || inputs.front().empty(),
                      "tutti: scatter: only the source, rank ", options.rootRank,
                      ", may give a list of inputs");
  }
  return run(std::move(operation), options.asyncOp, [&](ProcessGroup& group) {
    return group.scatter(
        output, std::span<const TensorView>(views),
        {.root = root_of(options.rootRank, kThis), .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::reduce_scatter(std::vector<at::Tensor>& outputs,
                                            std::vector<std::vector<at::Tensor>>& inputs,
                                            const c10d::ReduceScatterOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("reduce_scatter");
  const TensorView output = view_of(single(outputs, kThis), kThis);
  const std::vector<at::Tensor>& list = one_per_rank(inputs, getSize(), kThis);
  const std::vector<TensorView> views = views_of(list, kThis);
  const Reduction how = reduction_of(options.reduceOp, kThis);
  return run(kThis.on(list, outputs), options.asyncOp, [&](ProcessGroup& group) {
    return group.reduce_scatter(
        output, std::span(views),
        {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                  const c10d::ReduceScatterOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("reduce_scatter_tensor");
  const TensorView to = view_of(output, kThis);
  const TensorView from = view_of(input, kThis);
  const Reduction how = reduction_of(options.reduceOp, kThis);
  return run(kThis.on({input}, {output}), options.asyncOp, [&](ProcessGroup& group) {
    return group.reduce_scatter(
        to, from, {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)});
  });
}

// Always with splits: where one rank of the engine gives them, all must, and in torch a rank with
// equal ones need not.
TorchWork ProcessGroupTutti::alltoall_base(at::Tensor& output, at::Tensor& input,
                                           std::vector<int64_t>& output_splits,
                                           std::vector<int64_t>& input_splits,
                                           const c10d::AllToAllOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("all_to_all_single");
  const TensorView to = view_of(output, kThis);
  const TensorView from = view_of(input, kThis);
  const std::vector<std::size_t> expected =
      split_counts(output, output_splits, getSize(), "output");
  const std::vector<std::size_t> sent = split_counts(input, input_splits, getSize(), "input");
  return run(kThis.on({input}, {output}), options.asyncOp, [&](ProcessGroup& group) {
    return group.all_to_all(
        to, from,
        {.output_splits = expected, .input_splits = sent, .timeout = timeout_of(options.timeout)});
  });
}

TorchWork ProcessGroupTutti::alltoall(std::vector<at::Tensor>& outputs,
                                      std::vector<at::Tensor>& inputs,
                                      const c10d::AllToAllOptions& options) {
  static constexpr TorchOperation kThis = torch_operation("all_to_all");
  const std::vector<TensorView> to = views_of(outputs, kThis);
  const std::vector<TensorView> from = views_of(inputs, kThis);
  const auto size = static_cast<std::size_t>(getSize());
  TORCH_CHECK_VALUE(outputs.size() == size && inputs.size() == size,
                    "tutti: all_to_all: both lists must have a tensor for each of the ", size,
                    " ranks; the outputs are ", outputs.size(), ", the inputs ", inputs.size());
  return run(kThis.on(inputs, outputs), options.asyncOp, [&](ProcessGroup& group) {
    return group.all_to_all(std::span(to), std::span(from),
                            {.timeout = timeout_of(options.timeout)});
  });
}

}  // namespace tutti::torch_plugin
