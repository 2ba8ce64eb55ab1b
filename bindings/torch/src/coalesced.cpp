#include <span>
#include <utility>

#include "process_group_tutti.hpp"
#include "running.hpp"
#include "views.hpp"

// The engine takes several tensors of one dtype at once, so each dtype is an operation.
namespace tutti::torch_plugin {
namespace {

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
constexpr auto kReduceScatterTensorCoalesced = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else
constexpr auto kReduceScatterTensorCoalesced = c10d::OpType::COALESCED;
#endif

std::vector<TensorView> chosen(const std::vector<TensorView>& views,
                               const std::vector<std::size_t>& positions) {
  std::vector<TensorView> some;
  some.reserve(positions.size());
  for (const std::size_t position : positions) some.push_back(views[position]);
  return some;
}

void check_counterparts(std::size_t outputs, std::size_t inputs, const char* operation) {
  TORCH_CHECK_VALUE(outputs == inputs && inputs > 0, "tutti: ", operation, ": ", outputs,
                    " outputs do not fit to ", inputs, " inputs");
}

}  // namespace

TorchWork ProcessGroupTutti::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                 const c10d::AllreduceCoalescedOptions& options) {
  constexpr const char* kName = "all_reduce_coalesced";
  TORCH_CHECK_VALUE(!tensors.empty(), "tutti: ", kName, ": the list of tensors is empty");
  const std::vector<TensorView> views = views_to_reduce(tensors, kName);
  const Reduction how = reduction_of(options.reduceOp, kName);
  return run_each(
      {OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", tensors, tensors},
      [&](ProcessGroup& group, const auto& add) {
        for (const auto& positions : by_dtype(tensors)) {
          add(group.all_reduce_coalesced(
              chosen(views, positions),
              {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)}));
        }
      });
}

TorchWork ProcessGroupTutti::allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                 std::vector<at::Tensor>& inputs,
                                                 const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_coalesced";
  TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(getSize()), "tutti: ", kName, ": ",
                    outputs.size(), " lists of outputs are given for ", getSize(), " ranks");
  const std::vector<TensorView> from = views_to_move(inputs, kName);
  std::vector<std::vector<TensorView>> to;
  Operation operation{OpType::ALLGATHER_COALESCED, "tutti:all_gather", inputs};
  for (const std::vector<at::Tensor>& list : outputs) {
    check_counterparts(list.size(), inputs.size(), kName);
    to.push_back(views_to_move(list, kName));
    operation.outputs.insert(operation.outputs.end(), list.begin(), list.end());
  }
  return run_each(std::move(operation), [&](ProcessGroup& group, const auto& add) {
    for (const auto& positions : by_dtype(inputs)) {
      std::vector<TensorView> blocks;
      for (const std::vector<TensorView>& list : to) {
        for (const TensorView& view : chosen(list, positions)) blocks.push_back(view);
      }
      add(group.all_gather_coalesced(blocks, chosen(from, positions),
                                     {.timeout = timeout_of(options.timeout)}));
    }
  });
}

TorchWork ProcessGroupTutti::allgather_into_tensor_coalesced(
    std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor_coalesced";
  check_counterparts(outputs.size(), inputs.size(), kName);
  const std::vector<TensorView> to = views_to_move(outputs, kName);
  const std::vector<TensorView> from = views_to_move(inputs, kName);
  return run_each({OpType::ALLGATHER_COALESCED, "tutti:all_gather", inputs, outputs},
                  [&](ProcessGroup& group, const auto& add) {
                    for (const auto& positions : by_dtype(inputs)) {
                      add(group.all_gather_coalesced(chosen(to, positions), chosen(from, positions),
                                                     {.timeout = timeout_of(options.timeout)}));
                    }
                  });
}

TorchWork ProcessGroupTutti::reduce_scatter_tensor_coalesced(
    std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor_coalesced";
  check_counterparts(outputs.size(), inputs.size(), kName);
  const std::vector<TensorView> to = views_to_reduce(outputs, kName);
  const std::vector<TensorView> from = views_to_reduce(inputs, kName);
  const Reduction how = reduction_of(options.reduceOp, kName);
  return run_each(
      {kReduceScatterTensorCoalesced, "tutti:reduce_scatter", inputs, outputs},
      [&](ProcessGroup& group, const auto& add) {
        for (const auto& positions : by_dtype(inputs)) {
          add(group.reduce_scatter_coalesced(
              chosen(to, positions), chosen(from, positions),
              {.op = how.op, .factor = how.factor, .timeout = timeout_of(options.timeout)}));
        }
      });
}

}  // namespace tutti::torch_plugin
