#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "call/extent.hpp"
#include "gpu/host_call.hpp"
#include "gpu/ipc_peers.hpp"
#include "gpu/part_copy.hpp"

namespace tutti::gpu {

/// The rendezvous call: a host call without data by which the ranks compare `call` and wait for
/// each other. It does not compare the counts of uneven blocks.
[[nodiscard]] Collective rendezvous_call_of(const Collective& call, const call::Extent& extent);

/// A collective whose elements go from GPU to GPU, in parts. Each rank copies a part to a slot of
/// its own shared memory, for PREMUL_SUM multiplied by its factors (`fill`). After a rendezvous all
/// slots are filled, and each rank copies or combines from the slots of all ranks (`read`).
///
/// In a large all_reduce each rank combines one slice of the slots into its own slot
/// (`combine_slice`), and after the next rendezvous copies the slices of all ranks (`take_slices`).
/// So part m + 1 is filled and combined while part m is copied.
///
/// The work after rendezvous m has two halves: `lead` ends before this rank enters rendezvous m +
/// 1, `trail` may run longer. So after rendezvous m all ranks have ended `trail` of rendezvous m -
/// 2, which is why there are four slots. This holds because one order covers all work of this rank:
/// a first part on the caller's stream waits for the end of the previous call
/// (IpcPath::start).
class DirectCall {
 public:
  /// `call` has GPU tensors. It and `peers` must outlive this object.
  DirectCall(const HostCall& call, const call::Extent& extent, IpcPeers& peers);

  /// The rendezvous call of this collective.
  [[nodiscard]] const Collective& rendezvous_call() const noexcept { return rendezvous_call_; }
  [[nodiscard]] std::uint64_t parts() const noexcept { return parts_.number(); }

  // Progress.
  std::uint64_t first = 0;  ///< number of its first part
  std::uint64_t met = 0;    ///< rendezvous that are done
  [[nodiscard]] bool at_last_rendezvous() const noexcept { return left() == 1; }
  [[nodiscard]] bool has_met() const noexcept { return left() == 0; }

  /// Queues the work that must end before the next rendezvous, and the work that may run during it.
  /// False: `work.calls` has the failure.
  bool lead(PartCopy work) const;
  bool trail(PartCopy work) const;

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] std::uint64_t left() const noexcept {
    return parts() + (two_rounds_ ? 1 : 0) - met;
  }
  bool fill(PartCopy& work, std::uint64_t part) const;
  bool scale(PartCopy& work, std::size_t begin, std::size_t count, cuda::Address slot) const;
  bool read(PartCopy& work, std::uint64_t part) const;
  bool combine(PartCopy& work, std::uint64_t part) const;
  bool copy(PartCopy& work, std::uint64_t part) const;
  bool combine_slice(PartCopy& work, std::uint64_t part) const;
  bool reduce(PartCopy& work, cuda::Address to, std::span<const cuda::Address> sources,
              std::size_t count) const;
  bool take_slices(PartCopy& work, std::uint64_t part) const;
  /// The elements of a part that a rank combines in the first of two rounds.
  [[nodiscard]] Range slice_of(int rank, std::uint64_t part) const noexcept;

  const HostCall& call_;
  IpcPeers& peers_;
  Collective rendezvous_call_;
  std::size_t element_ = 1;
  std::size_t blocks_ = 1;  ///< of the input
  Parts parts_;             ///< of a block, or of the tensor if there are no blocks
  bool two_rounds_ = false;
};

}  // namespace tutti::gpu
