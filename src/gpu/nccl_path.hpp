#pragma once

#include "gpu/nccl_choice.hpp"
#include "gpu/operation.hpp"

namespace tutti::gpu {

/// A collective that may run on NCCL: waits for its turn, lets the ranks agree (NcclChoice), and
/// gives the whole call to NCCL, or to another path.
class NcclPath final : public Path {
 public:
  explicit NcclPath(NcclChoice& choice) : choice_(choice) { choice_.add_waiting(1); }
  ~NcclPath() override { stop_waiting(); }

  [[nodiscard]] Step step(GpuOperation& op) override;
  void cancel(GpuOperation& op) noexcept override;

 private:
  [[nodiscard]] Step begin(GpuOperation& op);
  [[nodiscard]] Step agree(GpuOperation& op);
  [[nodiscard]] Step hand_over(GpuOperation& op);
  void stop_waiting() noexcept;

  NcclChoice& choice_;
  bool waits_ = true;
};

}  // namespace tutti::gpu
