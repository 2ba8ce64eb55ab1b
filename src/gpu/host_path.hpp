#pragma once

#include "gpu/operation.hpp"

namespace tutti::gpu {

/// Through pinned host memory, as one host call: the input is copied to the host on the caller's
/// stream, and the result to the GPU on a stream of ours. CPU tensors that wait for earlier calls
/// take this path, too, without copies.
class HostPath final : public Path {
 public:
  [[nodiscard]] Step start(GpuOperation& op, GpuScope& on, bool passed) override;
  [[nodiscard]] Step step(GpuOperation& op) override;
  [[nodiscard]] bool in_parts() const noexcept override { return false; }

  // For PairPath, whose peer may have its tensor in host memory.
  /// Copies the input to the host. The operation has arrived when that is done.
  [[nodiscard]] static Step copy_in(GpuOperation& op, GpuScope& on, cuda::Stream stream);
  /// Copies the result to the GPU.
  [[nodiscard]] static Step copy_out(GpuOperation& op);
};

}  // namespace tutti::gpu
