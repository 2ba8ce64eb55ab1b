#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <tutti/torch/process_group.hpp>

namespace tutti::torch {

/// The gradients of some parameters, in one flat tensor. All members are the same on every rank,
/// but for the values.
struct GradBucket {
  std::size_t index = 0;               ///< the bucket's place in the order of the step
  bool is_last = false;                ///< no bucket follows in this step
  at::Tensor buffer;                   ///< this rank's gradients, one after the other
  std::vector<at::Tensor> gradients;   ///< parts of the buffer, one for each parameter
  std::vector<at::Tensor> parameters;  ///< to which the gradients belong
};

/// The second half of a hook, called once at the end of backward: it waits, and gives as many
/// elements as the buffer has, averaged over the ranks. Of another dtype they are converted.
using FinishBucket = std::function<at::Tensor()>;

/// Averages a bucket in place of one all_reduce: begins it while backward goes on. It runs in
/// backward, on every rank for the same buckets in the same order, and must not use the model.
using CommHook = std::function<FinishBucket(ProcessGroup& group, const GradBucket& bucket)>;

/// Averages by one all_reduce, as a model without a hook does.
[[nodiscard]] CommHook allreduce_hook();
/// Sends float16 values: half the bytes of float32.
[[nodiscard]] CommHook fp16_compress_hook();
/// Sends bfloat16 values: half the bytes of float32.
[[nodiscard]] CommHook bf16_compress_hook();

}  // namespace tutti::torch
