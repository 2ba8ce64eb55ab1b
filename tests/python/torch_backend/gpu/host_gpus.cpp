// GPUs whose memory is the host's, for a torch without CUDA: tests/python/torch_backend/gpus.py
// compiles it. With tests/support/mock_cuda_driver.cpp, which is the driver of such GPUs, tutti
// takes their tensors.
//
// Streams have no work of their own: each call with one is written down, for the tests to read.
// The operator `host_gpus::on_gpu` makes a tensor of a GPU of the memory of one of the CPU. Kernels
// of torch run on that memory as those of the CPU.

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace {

constexpr int kGpus = 2;
constexpr std::int64_t kFirstOfPool = 100;
constexpr std::int64_t kStreams = 1000;  // of a GPU

thread_local int current_gpu = 0;
thread_local std::array<std::int64_t, kGpus> current_streams{};
std::atomic<std::int64_t> next_of_pool{0};
std::atomic<std::int64_t> events{0};
std::atomic<bool> lost{false};
std::mutex log_mutex;
std::string log_text;

void log(const std::string& line) {
  const std::lock_guard lock(log_mutex);
  log_text += line + "\n";
}

/// Streams have numbers that are those of the handles, too: 0 is the default one of each GPU.
std::int64_t number_of(const c10::Stream& stream) {
  return stream.id() == 0 ? 0 : kStreams * (stream.device_index() + 1) + stream.id();
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(current_gpu)};
  }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) current_gpu = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { setDevice(device); }
  static c10::Device with_index(c10::Device device) {
    return device.has_index() ? device
                              : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(current_gpu));
  }
  static c10::Stream stream_of(c10::Device device, std::int64_t id) {
    return c10::Stream(c10::Stream::UNSAFE, with_index(device), id);
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream_of(device,
                     current_streams.at(static_cast<std::size_t>(with_index(device).index())));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    TORCH_CHECK(!lost.load(), "the GPU was lost");
    return stream_of(device, kFirstOfPool + next_of_pool++ % 32);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return getStreamFromGlobalPool(device, false);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    std::int64_t& current = current_streams.at(static_cast<std::size_t>(stream.device_index()));
    return stream_of(stream.device(), std::exchange(current, stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(number_of(stream));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kGpus; }
  bool queryStream(const c10::Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    log("synchronize stream " + std::to_string(number_of(stream)));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = reinterpret_cast<void*>(++events);
    log("record " + name_of(*event) + " on " + std::to_string(number_of(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    log("wait for " + name_of(event) + " on " + std::to_string(number_of(stream)));
  }
  bool queryEvent(void* event) const override {
    log("query " + name_of(event));
    return true;
  }
  void synchronizeEvent(void* event) const override { log("synchronize " + name_of(event)); }
  static std::string name_of(void* event) {
    return "event " + std::to_string(reinterpret_cast<std::intptr_t>(event));
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

/// What autograd asks before it runs kernels on streams.
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs /*none*/) {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*gpu*/) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return kGpus; }
  c10::DeviceIndex current_device() const override {
    return static_cast<c10::DeviceIndex>(current_gpu);
  }
};

/// A tensor with the same elements, on another device.
at::Tensor moved(const at::Tensor& from, c10::Device device) {
  const c10::Storage& storage = from.storage();
  auto* const kept = new c10::Storage(storage);
  c10::DataPtr memory(
      storage.mutable_data(), kept, [](void* old) { delete static_cast<c10::Storage*>(old); },
      device);
  auto impl =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
                                            std::move(memory), c10::GetCPUAllocator(), true);
  const auto key = device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA;
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(impl)), c10::DispatchKeySet(key), from.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(from.sizes(), from.strides(),
                                                    from.storage_offset());
  if (from.is_conj()) made._set_conj(true);
  if (from.is_neg()) made._set_neg(true);
  return made;
}

at::Tensor on_gpu(const at::Tensor& from, std::int64_t gpu) {
  return moved(from, {c10::kCUDA, static_cast<c10::DeviceIndex>(gpu)});
}

at::Tensor on_host(const at::Tensor& from) { return moved(from, c10::kCPU); }

void set_stream(std::int64_t gpu, std::int64_t id) {
  current_streams.at(static_cast<std::size_t>(gpu)) = id;
}

void lose_gpus() { lost.store(true); }

std::string take_log() {
  const std::lock_guard lock(log_mutex);
  return std::exchange(log_text, {});
}

/// Runs a kernel of the CPU on the memory of the tensors.
void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                 torch::jit::Stack* stack) {
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(current_gpu));
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;  // on the host, on the GPU
  const auto to_host = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    gpu = tensor.device();
    pairs.emplace_back(on_host(tensor), tensor);
    return pairs.back().first;
  };
  const auto to_gpu = [&](const at::Tensor& tensor) {
    for (const auto& [host, original] : pairs)
      if (host.is_same(tensor)) return original;
    return tensor.defined() && tensor.is_cpu() ? moved(tensor, gpu) : tensor;
  };
  const auto each = [](c10::IValue& value, const auto& change) {
    if (value.isTensor()) {
      value = change(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
      value = list;
    }
  };
  for (auto value = stack->end() - count; value != stack->end(); ++value) {
    each(*value, to_host);
    if (value->isDevice() && value->toDevice().is_cuda()) {
      if (value->toDevice().has_index()) gpu = value->toDevice();
      *value = c10::Device(c10::kCPU);
    }
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (auto& [host, original] : pairs) {  // a result may have been given another size
    c10::TensorImpl& changed = *original.unsafeGetTensorImpl();
    if (host.const_data_ptr() != original.const_data_ptr())
      changed.set_storage_keep_dtype(moved(host, gpu).storage());
    if (host.sizes() != original.sizes() || host.strides() != original.strides())
      changed.set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }
  const auto results = static_cast<std::ptrdiff_t>(op.schema().returns().size());
  for (auto value = stack->end() - results; value != stack->end(); ++value) each(*value, to_gpu);
}

}  // namespace

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, ::CUDAHooks)
}

TORCH_LIBRARY(host_gpus, library) {
  library.def("on_gpu(Tensor tensor, int gpu) -> Tensor", &on_gpu);
  library.def("on_host(Tensor tensor) -> Tensor", &on_host);
  library.def("set_stream(int gpu, int id) -> ()", &set_stream);
  library.def("take_log() -> str", &take_log);
  library.def("lose_gpus() -> ()", &lose_gpus);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

// Those of which one kernel serves all devices, and looks for its inner part by the device.
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}
