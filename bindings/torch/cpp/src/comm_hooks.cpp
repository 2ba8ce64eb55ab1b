#include <tutti/torch/comm_hooks.hpp>

#include <memory>

#include <ATen/ATen.h>

namespace tutti::torch {
namespace {

/// Starts an all_reduce that runs while backward computes.
FinishBucket begin_all_reduce(ProcessGroup& group, at::Tensor values, ReduceOp op) {
  // Shared, because a std::function must be copyable.
  const auto work = std::make_shared<Work>(group.all_reduce(values, {.op = op}));
  return [work, values = std::move(values)] {
    work->wait();
    return values;
  };
}

CommHook compress_hook(at::ScalarType dtype) {
  return [dtype](ProcessGroup& group, const GradBucket& bucket) {
    // Divided first, because the sum of all ranks may be too large for the narrow type.
    return begin_all_reduce(group, bucket.buffer.to(dtype).div_(group.size()), ReduceOp::sum);
  };
}

}  // namespace

CommHook allreduce_hook() {
  return [](ProcessGroup& group, const GradBucket& bucket) {
    return begin_all_reduce(group, bucket.buffer, ReduceOp::avg);
  };
}

CommHook fp16_compress_hook() { return compress_hook(at::kHalf); }

CommHook bf16_compress_hook() { return compress_hook(at::kBFloat16); }

}  // namespace tutti::torch
