#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "call/extent.hpp"
#include "gpu/host_call.hpp"
#include "gpu/part_copy.hpp"
#include "gpu/peers.hpp"

namespace tutti::staged {

/// The ranks meet by this call on their CPUs, and compare what it is about. Numbers of elements of
/// uneven blocks are not compared.
[[nodiscard]] Collective meeting_of(const Collective& call, const call::Extent& extent);

/// A collective whose elements go from GPU to GPU, in parts. A part is copied to a slot of the own
/// memory, for PREMUL_SUM times its factors (`fill`). When all ranks have met on their CPUs, all
/// slots are filled, and each rank copies or combines from the slots of all (`read`).
///
/// In a large all_reduce each rank combines a slice of the slots into its own slot (`combine`), and
/// after the next meeting takes the slices of all (`take`). So part m + 1 is filled and combined
/// while part m is taken.
///
/// The work after meeting m has two halves. `lead` ends before this rank goes to meeting m + 1;
/// `trail` may run longer. So after meeting m all ranks have ended their `trail` of meeting m - 2:
/// that is why there are four slots. It needs one order of all this rank's work: a first part on
/// the caller's stream waits for the end of the call before (Group::begin_on_stream).
class DirectCall {
 public:
  /// Of a call whose tensors are of GPUs, with what all ranks agree about.
  DirectCall(const Collective& call, const call::Extent& extent, const Peers& peers);

  /// The CPUs compare this when they meet.
  [[nodiscard]] const Collective& meeting() const noexcept { return meeting_; }
  /// At least 1.
  [[nodiscard]] std::uint64_t parts() const noexcept { return parts_; }

  // Where it stands.
  int exchange = -1;        ///< number of the exchange of Peers that runs; -1: none
  bool begun = false;       ///< parts are numbered
  std::uint64_t first = 0;  ///< number of its first part
  std::uint64_t met = 0;    ///< meetings that are over
  [[nodiscard]] bool at_last_meeting() const noexcept { return begun && left() == 1; }
  [[nodiscard]] bool has_met() const noexcept { return left() == 0; }

  /// Before the next meeting, and what may go on beside it; in the order of the stream. False:
  /// `calls` says why.
  bool lead(const HostCall& call, Peers& peers, cuda::CudaApi& cuda, cuda::Calls& calls,
            cuda::Stream stream) const;
  bool trail(const HostCall& call, Peers& peers, cuda::CudaApi& cuda, cuda::Calls& calls,
             cuda::Stream stream) const;

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] std::uint64_t left() const noexcept { return parts_ + (two_rounds_ ? 1 : 0) - met; }
  [[nodiscard]] std::size_t begin_of(std::uint64_t part) const noexcept {
    return static_cast<std::size_t>(part) * most_;
  }
  [[nodiscard]] std::size_t length_of(std::uint64_t part) const noexcept;
  bool fill(const HostCall& call, Peers& peers, PartCopy& work, std::uint64_t part) const;
  bool scale(const HostCall& call, Peers& peers, PartCopy& work, std::size_t begin,
             std::size_t count, cuda::Address slot) const;
  bool read(const HostCall& call, Peers& peers, PartCopy& work, std::uint64_t part) const;
  bool combine(const HostCall& call, Peers& peers, PartCopy& work, std::uint64_t part) const;
  bool copy(const HostCall& call, Peers& peers, PartCopy& work, std::uint64_t part) const;
  bool combine_slice(Peers& peers, PartCopy& work, std::uint64_t part) const;
  bool reduce(Peers& peers, PartCopy& work, cuda::Address to,
              std::span<const cuda::Address> sources, std::size_t count) const;
  bool take_slices(const HostCall& call, Peers& peers, PartCopy& work, std::uint64_t part) const;
  [[nodiscard]] Range slice_of(const Peers& peers, int rank, std::uint64_t part) const noexcept;

  Collective meeting_;
  std::size_t element_ = 1;
  std::size_t count_ = 0;   ///< elements of a block; without blocks, of all
  std::size_t blocks_ = 1;  ///< of an input
  std::size_t most_ = 0;    ///< elements of a block in a part
  std::uint64_t parts_ = 1;
  bool two_rounds_ = false;
};

}  // namespace tutti::staged
