#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "cuda/calls.hpp"
#include "cuda/cuda_api.hpp"

namespace tutti::cuda {

/// A GPU that a group works on: its primary context, and events for one operation after the other.
///
/// Threads: one at a time (the lock of the group).
class Device {
 public:
  /// Calls cuInit.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(CudaApi& cuda, int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] Context context() const noexcept { return context_; }

  /// An event of the pool. Needs `Current`.
  bool acquire_event(Calls& calls, Event& made);
  void release_event(Event& event) {
    if (event != Event{}) events_.push_back(event);
    event = Event{};
  }

 private:
  Device(CudaApi& cuda, int index, Context context)
      : cuda_(cuda), index_(index), context_(context) {}

  CudaApi& cuda_;
  int index_;
  Context context_;
  std::vector<Event> events_;  ///< that nobody uses
};

/// Whether a stream runs its work, or a CUDA graph captures it.
enum class Capture : std::uint8_t {
  none,
  this_stream,
  another,  ///< it is the default stream, which cannot be used while another one is captured
};
/// Needs `Current`.
[[nodiscard]] Capture capture_of(Calls& calls, CudaApi& cuda, Stream stream);
/// Why a call on such a stream cannot be.
[[nodiscard]] std::string text_of(Capture capture);

/// Makes the context of a device that of this thread, as long as it lives. And what is called
/// meanwhile neither fails nor disturbs because another thread captures a graph.
class Current {
 public:
  Current(CudaApi& cuda, const Device& device, Calls& calls)
      : cuda_(cuda),
        pushed_(calls.cuda("cuCtxPushCurrent", cuda.push_context(device.context()))),
        relaxed_(pushed_ && calls.cuda("cuThreadExchangeStreamCaptureMode",
                                       cuda.exchange_capture_mode(mode_))) {}
  ~Current() {
    if (relaxed_) (void)cuda_.exchange_capture_mode(mode_);
    if (pushed_) (void)cuda_.pop_context();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  CudaApi& cuda_;
  int mode_ = kCaptureRelaxed;
  bool pushed_;
  bool relaxed_;
};

}  // namespace tutti::cuda
