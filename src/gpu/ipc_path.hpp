#pragma once

#include "gpu/direct_call.hpp"
#include "gpu/operation.hpp"

namespace tutti::gpu {

/// From GPU to GPU within a host: orders the exchanges, rendezvous and copies of a DirectCall. A
/// rendezvous is a host call without data.
class IpcPath final : public Path {
 public:
  IpcPath(const HostCall& call, const call::Extent& extent, IpcPeers& peers)
      : direct_(call, extent, peers) {}

  /// Copies the first part on the caller's stream if it can, so the host need not poll until the
  /// stream reaches the call.
  [[nodiscard]] Step start(GpuOperation& op, GpuScope& on, bool passed) override;
  [[nodiscard]] Step step(GpuOperation& op) override;
  [[nodiscard]] bool uses_slots() const noexcept override { return true; }

 private:
  [[nodiscard]] bool may_fill_now(const GpuOperation& op) const;
  void number_parts(GpuOperation& op);
  [[nodiscard]] Step begin(GpuOperation& op);
  [[nodiscard]] Step rendezvous_ended(GpuOperation& op);
  [[nodiscard]] Step move_part(GpuOperation& op);

  DirectCall direct_;
  int exchange_ = -1;   ///< number of the exchange of IpcPeers that runs; -1: none
  bool begun_ = false;  ///< parts are numbered
};

}  // namespace tutti::gpu
