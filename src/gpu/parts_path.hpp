#pragma once

#include <cstddef>
#include <cstdint>

#include "call/extent.hpp"
#include "gpu/operation.hpp"
#include "gpu/part_copy.hpp"

namespace tutti::gpu {

/// A large collective through host memory, one part after the other. While the host backend runs
/// the call of one part, the GPU copies the next input to the host and the previous result back.
/// One stream orders all these copies, so two places on the host are enough.
///
/// A part has the same range of each block. Elements are combined in the order of the ranks, as in
/// one call, so results have the same bits (with the default algorithms).
class PartsPath final : public Path {
 public:
  /// `whole` has GPU tensors and equal blocks. `part_bytes`: bytes of a part on the larger side.
  PartsPath(const HostCall& whole, const call::Extent& extent, int ranks, std::size_t part_bytes);

  [[nodiscard]] std::uint64_t parts() const noexcept { return parts_.number(); }

  [[nodiscard]] Step step(GpuOperation& op) override;

 private:
  struct Side {
    std::size_t blocks = 1;
    bool empty = false;  ///< this rank has no tensor on this side
  };
  [[nodiscard]] Step begin(GpuOperation& op);
  [[nodiscard]] Step submit_part(GpuOperation& op);
  [[nodiscard]] Step end_part(GpuOperation& op);
  /// Copies the input of a part to the host, or its result to the GPU. False: `on` has the failure.
  bool fill(GpuOperation& op, GpuScope& on, std::uint64_t part) const;
  bool store(const GpuOperation& op, GpuScope& on, std::uint64_t part) const;
  bool move(const call::CallSide& tensors, const Side& side, PartCopy work, std::uint64_t part,
            bool packs) const;
  /// The host call of the part that runs.
  [[nodiscard]] Collective call_of(const Collective& whole) const noexcept;
  [[nodiscard]] std::size_t bytes_of(const Side& side) const noexcept;
  [[nodiscard]] std::size_t place_bytes() const noexcept {
    return bytes_of(in_) + (in_place_ ? 0 : bytes_of(out_));
  }
  [[nodiscard]] std::byte* place_of(const Side& side, std::uint64_t part) const noexcept;

  call::Extent extent_;
  std::size_t element_;
  Side in_;
  Side out_;
  bool in_place_;
  Parts parts_;             ///< of a block, or of the tensor if there are no blocks
  std::uint64_t done_ = 0;  ///< parts whose host call is done
  std::byte* memory_ = nullptr;
};

}  // namespace tutti::gpu
