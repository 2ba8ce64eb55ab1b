#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

// Torch's streams by c10's interfaces for any device, so that this compiles for a torch without
// CUDA, too.
namespace tutti::torch_plugin {

/// The stream of torch on which a call with tensors of a GPU was made.
///
/// Threads: one at a time until `mark` has returned; then any, which call const methods only.
class CallStream {
 public:
  /// The current stream of this thread on the GPU of these tensors; absent: they are on the CPU.
  /// ValueError where they are on several devices.
  [[nodiscard]] static std::optional<CallStream> of(const std::vector<at::Tensor>& inputs,
                                                    const std::vector<at::Tensor>& outputs,
                                                    const char* operation);

  [[nodiscard]] c10::Device device() const { return stream_.device(); }
  /// cudaStream_t as a number.
  [[nodiscard]] std::uintptr_t handle() const;

  /// Once the stream is ordered behind the operation: what the other methods wait for.
  void mark();
  /// Later work of `stream` begins after the mark. Without a mark the operation was seen to be
  /// over.
  void order(const c10::Stream& stream) const;
  /// The same for the current stream of this thread on the device.
  void order_current() const;
  /// Is the mark passed? True without one.
  [[nodiscard]] bool passed() const;
  /// The host waits for the mark.
  void synchronize() const;

 private:
  explicit CallStream(c10::Stream stream) : stream_(stream) {}

  c10::Stream stream_;
  std::optional<c10::Event> mark_;
};

/// 0, the default stream, where there is none.
[[nodiscard]] std::uintptr_t handle_of(const std::optional<CallStream>& stream);

/// The host waits for the current stream of this thread on a GPU; nothing where torch has none.
void synchronize_current(std::int64_t gpu);

}  // namespace tutti::torch_plugin
