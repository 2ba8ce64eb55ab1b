#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <tutti/backend/collective.hpp>

#include "call/call_side.hpp"

namespace tutti::gpu {

/// Rounds up to cache lines: kernels are faster on tensors that begin at one.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

/// A call with its GPU tensors replaced by packed copies in host memory, for the host backend. It
/// owns copies of all lists, so the caller's lists may be gone when it is submitted.
class HostCall {
 public:
  HostCall() = default;
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  /// Copies the caller's lists, and a factor that is one number in host memory. `rank` decides
  /// which tensors are read and written.
  void take(const Collective& call, int rank);
  /// Bytes of host memory that its tensors need.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Places the copies of GPU tensors in `memory` (null if `bytes` is 0); `call`, `to_host` and
  /// `to_gpu` are valid afterwards. A call with CPU tensors needs no `place`.
  void place(std::byte* memory);

  /// The caller's tensors, until `place`; and whether this rank reads and writes them.
  [[nodiscard]] const call::CallSide& in() const noexcept { return in_; }
  [[nodiscard]] const call::CallSide& out() const noexcept { return out_; }
  [[nodiscard]] const TensorView& factor() const noexcept { return details_.factor; }
  [[nodiscard]] bool reads() const noexcept { return reads_; }
  [[nodiscard]] bool writes() const noexcept { return writes_; }
  /// True if input and output are the same memory.
  [[nodiscard]] bool in_place() const noexcept { return in_place_; }

  [[nodiscard]] Collective& call() noexcept { return call_; }
  [[nodiscard]] const Collective& call() const noexcept { return call_; }

  /// Elements of a GPU tensor, and their place in host memory.
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
  bool in_place_ = false;  ///< one copy serves both sides
  std::vector<std::size_t> input_counts_;
  std::vector<std::size_t> output_counts_;
  alignas(16) std::array<std::byte, 16> factor_{};
  std::vector<Copy> to_host_;
  std::vector<Copy> to_gpu_;
};

/// True if the tensors of the call are in the memory of a GPU.
[[nodiscard]] bool is_on_gpu(const Collective& call) noexcept;

}  // namespace tutti::gpu
