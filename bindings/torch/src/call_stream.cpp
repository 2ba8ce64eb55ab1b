#include "call_stream.hpp"

#include <initializer_list>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace tutti::torch_plugin {
namespace {

c10::Stream current_on(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

std::optional<CallStream> CallStream::of(const std::vector<at::Tensor>& inputs,
                                         const std::vector<at::Tensor>& outputs,
                                         const char* operation) {
  std::optional<c10::Device> common;
  for (const std::vector<at::Tensor>* const list : {&inputs, &outputs}) {
    for (const at::Tensor& tensor : *list) {
      if (!common) common = tensor.device();
      TORCH_CHECK_VALUE(tensor.device() == *common, operation, ": there are tensors on ", *common,
                        " and on ", tensor.device(), "; those of a call must be on one device");
    }
  }
  if (!common || !common->is_cuda()) return std::nullopt;
  return CallStream(current_on(*common));
}

std::uintptr_t CallStream::handle() const {
  return reinterpret_cast<std::uintptr_t>(stream_.native_handle());
}

void CallStream::mark() {
  c10::Event reached(stream_.device_type());
  reached.record(stream_);
  mark_ = std::move(reached);
}

void CallStream::order(const c10::Stream& stream) const {
  if (mark_ && stream != stream_) mark_->block(stream);
}

void CallStream::order_current() const { order(current_on(device())); }

bool CallStream::passed() const { return !mark_ || mark_->query(); }

void CallStream::synchronize() const {
  if (mark_) mark_->synchronize();
}

std::uintptr_t handle_of(const std::optional<CallStream>& stream) {
  return stream ? stream->handle() : 0;
}

void synchronize_current(std::int64_t gpu) {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return;
  const c10::impl::VirtualGuardImpl gpus(c10::kCUDA);
  if (gpu < 0 || gpu >= gpus.deviceCount()) return;
  current_on({c10::kCUDA, static_cast<c10::DeviceIndex>(gpu)}).synchronize();
}

}  // namespace tutti::torch_plugin
