#include "cuda/device.hpp"

namespace tutti::cuda {

Result<std::unique_ptr<Device>> Device::open(CudaApi& cuda, int index) {
  Calls calls(cuda);
  int count = 0;
  if (calls.cuda("cuInit", cuda.init())) calls.cuda("cuDeviceGetCount", cuda.device_count(count));
  if (!calls.ok()) return calls.status("");
  if (index < 0 || index >= count)
    return Outcome(Errc::invalid_argument, "there is no device cuda:" + std::to_string(index) +
                                               "; this process sees " + std::to_string(count));
  Context context{};
  if (!calls.cuda("cuDevicePrimaryCtxRetain", cuda.retain_context(index, context)))
    return calls.status("");
  return std::unique_ptr<Device>(new Device(cuda, index, context));
}

Device::~Device() {
  if (cuda_.push_context(context_) == 0) {
    for (const Event event : events_) (void)cuda_.destroy_event(event);
    (void)cuda_.pop_context();
  }
  (void)cuda_.release_context(index_);
}

bool Device::acquire_event(Calls& calls, Event& made) {
  if (events_.empty()) return calls.cuda("cuEventCreate", cuda_.create_event(made));
  made = events_.back();
  events_.pop_back();
  return true;
}

Capture capture_of(Calls& calls, CudaApi& cuda, Stream stream) {
  if (!calls.ok()) return Capture::none;
  bool capturing = false;
  const int code = cuda.is_capturing(stream, capturing);
  if (code == kCudaCaptureImplicit) return Capture::another;
  calls.cuda("cuStreamIsCapturing", code);
  return capturing ? Capture::this_stream : Capture::none;
}

std::string text_of(Capture capture) {
  return capture == Capture::another
             ? "another stream is being captured into a CUDA graph, and the default stream cannot "
               "be used meanwhile"
             : "its stream is being captured into a CUDA graph";
}

}  // namespace tutti::cuda
