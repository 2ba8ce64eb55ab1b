#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "process_group_tutti.hpp"
#include "running.hpp"
#include "views.hpp"

// Ranks hold different numbers of values. Each learns the numbers of all, gathers the values and
// adds them up itself, in the order of the ranks: so all hold the same bits.
namespace tutti::torch_plugin {
namespace {

using Limit = std::optional<std::chrono::nanoseconds>;

/// What every rank has: one row for each.
at::Tensor rows_of_all(ProcessGroup& group, const at::Tensor& mine, const Limit& timeout) {
  at::Tensor all = at::empty({group.size(), mine.numel()}, mine.options());
  group
      .all_gather(view_to_move(all, "all_reduce"), view_to_move(mine, "all_reduce"),
                  {.timeout = timeout})
      .wait();
  return all;
}

/// The blocks of all ranks, whose sizes along `dim` differ, as one.
at::Tensor blocks_of_all(ProcessGroup& group, const at::Tensor& mine, const at::Tensor& lengths,
                         std::int64_t dim, const Limit& timeout) {
  std::vector<at::Tensor> blocks;
  for (int r = 0; r < group.size(); ++r) {
    std::vector<std::int64_t> shape = mine.sizes().vec();
    shape[static_cast<std::size_t>(dim)] = lengths[r].item<std::int64_t>();
    blocks.push_back(at::empty(shape, mine.options()));
  }
  const std::vector<TensorView> views = views_to_move(blocks, "all_reduce");
  group.all_gather(std::span(views), view_to_move(mine, "all_reduce"), {.timeout = timeout}).wait();
  return at::cat(blocks, dim);
}

}  // namespace

TorchWork ProcessGroupTutti::allreduce_sparse(std::vector<at::Tensor>& tensors,
                                              const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = single(tensors, "all_reduce");
  TORCH_CHECK_VALUE(tensor.layout() == at::kSparse, "tutti: all_reduce: the tensor is ",
                    tensor.layout(), "; of the sparse layouts torch.sparse_coo is taken");
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "tutti: all_reduce: the sparse tensor is on ",
                    tensor.device(),
                    "; sparse ones are taken on the CPU only: call cpu() or to_dense() first");
  TORCH_CHECK_VALUE(options.reduceOp == c10d::ReduceOp::SUM,
                    "tutti: all_reduce: sparse tensors can only be summed up");
  const Limit timeout = timeout_of(options.timeout);
  const auto began = CompletionHook::Clock::now();
  ProcessGroup group = open("all_reduce");
  return with_torchs_exceptions([&]() -> TorchWork {
    const at::Tensor ours = tensor.coalesce();
    std::vector<std::int64_t> shape = ours.sizes().vec();
    shape.insert(shape.begin(), {ours._nnz(), ours.sparse_dim()});
    const at::Tensor shapes = rows_of_all(group, at::tensor(shape, at::kLong), timeout);
    for (int r = 0; r < group.size(); ++r) {
      TORCH_CHECK_WITH(DistBackendError, shapes[r].slice(0, 1).equal(shapes[getRank()].slice(0, 1)),
                       "tutti: all_reduce: the sparse tensor of rank ", r,
                       " has another shape than that of rank ", getRank());
    }
    const at::Tensor lengths = shapes.select(1, 0);
    const at::Tensor indices =
        blocks_of_all(group, ours.indices().contiguous(), lengths, 1, timeout);
    const at::Tensor values = blocks_of_all(group, ours.values().contiguous(), lengths, 0, timeout);
    tensor.copy_(at::sparse_coo_tensor(indices, values, ours.sizes()).coalesce());
    auto work = c10::make_intrusive<WorkTutti>(
        getRank(), Operation{OpType::_ALLREDUCE_SPARSE, "tutti:all_reduce", tensors, tensors},
        ++sequence_);
    (void)work->isCompleted();
    if (CompletionHook* const hook = watching_.load()) hook->watch(*work, began);
    return work;
  });
}

}  // namespace tutti::torch_plugin
