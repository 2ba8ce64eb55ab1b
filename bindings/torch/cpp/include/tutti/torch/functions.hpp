#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include <tutti/torch/process_group.hpp>

// Collectives that autograd sees: their backward is a collective, too, so either all ranks run it
// or none does. They return new tensors; double backward and complex values work. A list has a
// tensor for each rank, all of one dtype; where there is one tensor, the blocks of the ranks lie
// one after the other along dimension 0. c10::ValueError at the call if an argument is wrong.
namespace tutti::torch::nn {

/// The gradient that each rank gets in the backward of an all_gather.
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
/// The sum, or the average, on the root, and zeros on all others. Its gradient is the root's, with
/// ReduceOp::avg divided by the number of ranks; the others' are not looked at.
[[nodiscard]] at::Tensor reduce(ProcessGroup& group, const at::Tensor& tensor, int root = 0,
                                ReduceOp op = ReduceOp::sum);
/// The tensors of all ranks, concatenated; equal shapes.
[[nodiscard]] at::Tensor all_gather_single(ProcessGroup& group, const at::Tensor& tensor,
                                           GatherBackward backward = GatherBackward::sum);
/// The same as one tensor for each rank.
[[nodiscard]] std::vector<at::Tensor> all_gather(ProcessGroup& group, const at::Tensor& tensor,
                                                 GatherBackward backward = GatherBackward::sum);
/// The tensors of all ranks on the root; as many zeros of that shape on all others, which take part
/// in backward through them.
[[nodiscard]] std::vector<at::Tensor> gather(ProcessGroup& group, const at::Tensor& tensor,
                                             int root = 0);
/// The same concatenated; on all others nothing (0 rows).
[[nodiscard]] at::Tensor gather_single(ProcessGroup& group, const at::Tensor& tensor, int root = 0);
/// The tensor that the root has for this rank. On the others the tensors say the shape and the
/// dtype, and their gradients are zeros. All have one shape.
[[nodiscard]] at::Tensor scatter(ProcessGroup& group, const std::vector<at::Tensor>& tensors,
                                 int root = 0);
/// The rank's block of the root's tensor. The others give a tensor of 0 rows, of the same other
/// sizes, and `rows` is how many rows each block has.
[[nodiscard]] at::Tensor scatter_single(ProcessGroup& group, const at::Tensor& tensor,
                                        std::int64_t rows, int root = 0);
/// The sum, or the average, of the tensors that all ranks have for this one. All have one shape.
[[nodiscard]] at::Tensor reduce_scatter(ProcessGroup& group, const std::vector<at::Tensor>& tensors,
                                        ReduceOp op = ReduceOp::sum);
/// The rank's block of the sum, or the average, of all ranks' tensors.
[[nodiscard]] at::Tensor reduce_scatter_single(ProcessGroup& group, const at::Tensor& tensor,
                                               ReduceOp op = ReduceOp::sum);
/// Block r goes to rank r. The splits are the rows of each block; none: equal ones.
[[nodiscard]] at::Tensor all_to_all_single(ProcessGroup& group, const at::Tensor& tensor,
                                           const std::vector<std::int64_t>& output_splits = {},
                                           const std::vector<std::int64_t>& input_splits = {});
/// Tensor r goes to rank r; what the ranks have sent to this one. Shapes may differ, and
/// `output_shapes` are those of what comes; none: from each rank as what goes there.
[[nodiscard]] std::vector<at::Tensor> all_to_all(
    ProcessGroup& group, const std::vector<at::Tensor>& tensors,
    const std::vector<std::vector<std::int64_t>>& output_shapes = {});

}  // namespace tutti::torch::nn
