#pragma once

#include <memory>

#include "gpu/nccl_choice.hpp"
#include "gpu/operation.hpp"
#include "gpu/pair_path.hpp"

namespace tutti::gpu {

/// Says which path or backend takes a call of one group.
///
/// Threads: one at a time, under GpuSet::mutex, except for `nccl_for`.
class Router {
 public:
  explicit Router(PeerGroup& ranks)
      : pairs(ranks), nccl(*ranks.host, ranks.gpus.nccl()), ranks_(ranks) {}

  /// NCCL, if calls may go to it at once and it takes this one; else null. Any thread.
  [[nodiscard]] Backend* nccl_for(const Collective& call) const {
    Backend* const opened = nccl.opened();
    return opened != nullptr && nccl.may_take(call) ? opened : nullptr;
  }
  /// True if the call is being captured and may still go to NCCL: it must wait for the choice.
  [[nodiscard]] bool needs_choice(const Collective& call);
  /// Chooses the path of an operation and starts it.
  [[nodiscard]] Step start(GpuOperation& op, const Collective& call);
  /// The same after its path has passed it on.
  [[nodiscard]] Step pass_on(GpuOperation& op);

  MessagePairs pairs;
  NcclChoice nccl;

 private:
  [[nodiscard]] static std::unique_ptr<Path> path_without_nccl(const GpuOperation& op);

  PeerGroup& ranks_;
};

}  // namespace tutti::gpu
