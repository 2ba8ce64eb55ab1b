#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <tutti/arguments.hpp>
#include <tutti/tensor.hpp>

// What torch hands over, checked and in tutti's words. `operation` is its name for errors, which
// are ValueError and TypeError.
namespace tutti::torch_plugin {

/// The view of a tensor whose elements are combined: of a dtype that has arithmetic here.
[[nodiscard]] TensorView view_to_reduce(const at::Tensor& tensor, const char* operation);
/// The view of a tensor whose elements are only moved: those of other dtypes go as their bytes.
[[nodiscard]] TensorView view_to_move(const at::Tensor& tensor, const char* operation);
[[nodiscard]] std::vector<TensorView> views_to_reduce(const std::vector<at::Tensor>& tensors,
                                                      const char* operation);
[[nodiscard]] std::vector<TensorView> views_to_move(const std::vector<at::Tensor>& tensors,
                                                    const char* operation);

/// c10d passes lists that were made for several GPUs of one process: all have one entry.
[[nodiscard]] const at::Tensor& single(const std::vector<at::Tensor>& tensors,
                                       const char* operation);
/// The one list of the lists, which has a tensor for each of `size` ranks.
[[nodiscard]] const std::vector<at::Tensor>& one_per_rank(
    const std::vector<std::vector<at::Tensor>>& lists, int size, const char* operation);

/// How the values of the ranks are combined.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  std::optional<double> factor = std::nullopt;  ///< of PREMUL_SUM
};
[[nodiscard]] Reduction reduction_of(const c10d::ReduceOp& op, const char* operation);

/// The root, which c10d counts in 64 bits; what no int holds is no rank of any group.
[[nodiscard]] int root_of(std::int64_t rank, const char* operation);

/// At most a century: what is longer overflows once it is counted in nanoseconds.
[[nodiscard]] std::chrono::milliseconds bounded(std::chrono::milliseconds timeout);

/// Absent: the group's.
[[nodiscard]] std::optional<std::chrono::nanoseconds> timeout_of(std::chrono::milliseconds given);

/// Elements of each rank's block from `splits`, which count along the first dimension; none: equal
/// ones. `side` is "input" or "output".
[[nodiscard]] std::vector<std::size_t> split_counts(const at::Tensor& tensor,
                                                    const std::vector<std::int64_t>& splits,
                                                    int size, const char* side);

/// Positions of the tensors of each dtype, in the order of their first.
[[nodiscard]] std::vector<std::vector<std::size_t>> by_dtype(
    const std::vector<at::Tensor>& tensors);

}  // namespace tutti::torch_plugin
