#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <tutti/collective.hpp>

#include "call/call_side.hpp"

namespace tutti::staged {

/// Tensors on the host begin at cache lines, which kernels like.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

/// A call as the CPUs make it: tensors in the memory of a GPU stand in memory of the host, packed.
/// It has all lists of the call, so it may be made when the caller's are gone.
class HostCall {
 public:
  HostCall() = default;
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  /// Reads the caller's lists, and a factor that is a number of the host. `rank`: which tensors are
  /// read and written depends on it.
  void take(const Collective& call, int rank);
  /// Memory that its tensors need on the host.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Puts the tensors of a GPU there (null if `bytes` is 0). Only then `call`, `to_host` and
  /// `to_gpu` tell of it. A call whose tensors are of the CPU is complete without.
  void place(std::byte* memory);

  /// The sides as they were given, until `place`; and does this rank read and write them?
  [[nodiscard]] const call::CallSide& in() const noexcept { return in_; }
  [[nodiscard]] const call::CallSide& out() const noexcept { return out_; }
  [[nodiscard]] const TensorView& factor() const noexcept { return details_.factor; }
  [[nodiscard]] bool reads() const noexcept { return reads_; }
  [[nodiscard]] bool writes() const noexcept { return writes_; }
  /// Both sides are the same memory.
  [[nodiscard]] bool in_place() const noexcept { return in_place_; }

  [[nodiscard]] Collective& call() noexcept { return call_; }
  [[nodiscard]] const Collective& call() const noexcept { return call_; }

  /// Elements of a tensor on a GPU, and where they stand on the host.
  struct Copy {
    Piece gpu;
    std::byte* host = nullptr;
  };
  [[nodiscard]] const std::vector<Copy>& to_host() const noexcept { return to_host_; }
  [[nodiscard]] const std::vector<Copy>& to_gpu() const noexcept { return to_gpu_; }

 private:
  void tell();
  void own_lists();

  Collective call_;
  Details details_;
  call::CallSide in_;
  call::CallSide out_;
  bool reads_ = false;
  bool writes_ = false;
  bool in_place_ = false;  ///< both sides are the same memory: one copy for both
  std::vector<std::size_t> input_counts_;
  std::vector<std::size_t> output_counts_;
  alignas(16) std::array<std::byte, 16> factor_{};
  std::vector<Copy> to_host_;
  std::vector<Copy> to_gpu_;
};

/// True if the tensors of the call are in the memory of a GPU.
[[nodiscard]] bool is_on_gpu(const Collective& call) noexcept;

}  // namespace tutti::staged
