#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "call/extent.hpp"
#include "gpu/host_call.hpp"
#include "gpu/part_copy.hpp"

namespace tutti::gpu {

/// A large collective that is staged through host memory in parts. While the host backend runs the
/// call of one part, the GPU copies the next input to the host and the previous result back. One
/// stream orders all these copies, so two places on the host are enough.
///
/// A part has the same range of each block. Elements are combined in the order of the ranks, as in
/// one call, so results have the same bits (with the default algorithms).
class HostParts {
 public:
  /// `whole` has GPU tensors and equal blocks. `part_bytes`: bytes of a part on the larger side.
  HostParts(const HostCall& whole, const call::Extent& extent, int ranks, std::size_t part_bytes);

  [[nodiscard]] std::uint64_t parts() const noexcept { return parts_; }

  // Progress.
  bool compared = false;   ///< the ranks have compared the whole call
  std::uint64_t done = 0;  ///< parts whose host call is done
  [[nodiscard]] bool at_last() const noexcept { return done + 1 == parts_; }

  /// Bytes of host memory that it needs, and setting that memory.
  [[nodiscard]] std::size_t bytes() const noexcept { return 2 * place_bytes(); }
  void place(std::byte* memory) noexcept { memory_ = memory; }

  /// The host call of a part.
  [[nodiscard]] Collective call(const HostCall& whole, std::uint64_t part) const noexcept;
  /// Copies the input of a part to the host, or its result to the GPU. False: `work.calls` has the
  /// failure.
  bool fill(const HostCall& whole, PartCopy& work, std::uint64_t part) const;
  bool store(const HostCall& whole, PartCopy& work, std::uint64_t part) const;

 private:
  struct Side {
    std::size_t blocks = 1;
    bool empty = false;  ///< this rank has no tensor on this side
  };
  [[nodiscard]] std::size_t length_of(std::uint64_t part) const noexcept;
  [[nodiscard]] std::size_t bytes_of(const Side& side) const noexcept;
  [[nodiscard]] std::size_t place_bytes() const noexcept {
    return bytes_of(in_) + (in_place_ ? 0 : bytes_of(out_));
  }
  [[nodiscard]] std::byte* place_of(const Side& side, std::uint64_t part) const noexcept;
  bool move(const call::CallSide& tensors, const Side& side, PartCopy& work, std::uint64_t part,
            bool packs) const;

  DType dtype_;
  std::size_t element_;
  Side in_;
  Side out_;
  bool in_place_;
  std::size_t count_;  ///< elements of a block, or of the tensor if there are no blocks
  std::size_t most_;   ///< elements of a block in a part
  std::uint64_t parts_ = 1;
  std::byte* memory_ = nullptr;
};

}  // namespace tutti::gpu
