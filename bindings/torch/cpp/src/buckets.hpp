#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

#include <tutti/torch/comm_hooks.hpp>

namespace tutti::torch {

/// Gradients that are reduced together.
struct Bucket {
  std::vector<std::size_t> members;  ///< parameters, by their numbers
  at::Tensor flat;                   ///< their gradients, one after the other
  std::vector<at::Tensor> views;     ///< the part of each, shaped as its parameter
  std::size_t missing = 0;           ///< gradients that have not come in this step
  Work work;                         ///< the running all_reduce
  FinishBucket finish;               ///< or what a hook has begun
};

/// Divides the parameters into buckets of one dtype, in the order in which their gradients are
/// expected. A bucket is closed when it holds `first_bytes` (the first of a dtype) or `bytes`.
[[nodiscard]] std::vector<Bucket> make_buckets(const std::vector<at::Tensor>& parameters,
                                               const std::vector<std::size_t>& order,
                                               std::size_t first_bytes, std::size_t bytes);

}  // namespace tutti::torch
