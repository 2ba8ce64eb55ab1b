#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include <tutti/torch/process_group.hpp>

// Collectives that autograd sees: their backward is a collective, too, so either all ranks run it
// or none does. Each returns a new tensor; double backward and complex values work. Blocks lie one
// after the other along dimension 0.
namespace tutti::torch::nn {

/// What each rank gets in the backward of an all_gather.
enum class GatherBackward {
  sum,  ///< the sum of all ranks' gradients of its block: the true gradient of the ranks' sum
  avg,  ///< the same, divided by the number of ranks
  own,  ///< its own gradient of its block; no communication
};

/// The sum over all ranks, or with ReduceOp::avg the average; no other op.
[[nodiscard]] at::Tensor all_reduce(ProcessGroup& group, const at::Tensor& tensor,
                                    ReduceOp op = ReduceOp::sum);
/// The root's values on all ranks. Its gradient is the sum of all ranks'; the others' are zero.
[[nodiscard]] at::Tensor broadcast(ProcessGroup& group, const at::Tensor& tensor, int root = 0);
/// The sum on the root, and zeros on all others.
[[nodiscard]] at::Tensor reduce(ProcessGroup& group, const at::Tensor& tensor, int root = 0);
/// The tensors of all ranks, concatenated; equal shapes.
[[nodiscard]] at::Tensor all_gather_single(ProcessGroup& group, const at::Tensor& tensor,
                                           GatherBackward backward = GatherBackward::sum);
/// The same as one tensor for each rank.
[[nodiscard]] std::vector<at::Tensor> all_gather(ProcessGroup& group, const at::Tensor& tensor,
                                                 GatherBackward backward = GatherBackward::sum);
/// The tensors of all ranks on the root, concatenated; nothing (0 rows) on all others.
[[nodiscard]] at::Tensor gather(ProcessGroup& group, const at::Tensor& tensor, int root = 0);
/// The rank's block of the root's tensor. The others give a tensor of 0 rows, of the same other
/// sizes, and `rows` is how many rows each block has.
[[nodiscard]] at::Tensor scatter(ProcessGroup& group, const at::Tensor& tensor, std::int64_t rows,
                                 int root = 0);
/// The rank's block of the sum, or the average, of all ranks' tensors.
[[nodiscard]] at::Tensor reduce_scatter_single(ProcessGroup& group, const at::Tensor& tensor,
                                               ReduceOp op = ReduceOp::sum);
/// Block r goes to rank r. The splits are the rows of each block; none: equal ones.
[[nodiscard]] at::Tensor all_to_all_single(ProcessGroup& group, const at::Tensor& tensor,
                                           const std::vector<std::int64_t>& output_splits = {},
                                           const std::vector<std::int64_t>& input_splits = {});

}  // namespace tutti::torch::nn
