#include "apps/bench/peers/gpu_tensors.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <thread>

#include "cuda/library.hpp"

namespace tutti::bench {
namespace {

/// More than the caches of a GPU hold (50 MiB on an H100).
constexpr std::size_t kBeyondCaches = std::size_t{128} << 20;
constexpr std::size_t kPitch = 256;  ///< so that each copy is aligned as an allocation is

cuda::CudaApi& driver() {
  Result<cuda::CudaApi*> found = cuda::driver();
  if (!found) throw std::runtime_error(std::string(found.status().message()));
  return **found;
}

}  // namespace

int GpuTensors::count() {
  cuda::CudaApi& cuda = driver();
  cuda::Calls calls(cuda);
  int gpus = 0;
  if (!calls.cuda("cuInit", cuda.init()) ||
      !calls.cuda("cuDeviceGetCount", cuda.device_count(gpus)))
    throw std::runtime_error(calls.failure());
  if (gpus == 0) throw std::runtime_error("this process may use no GPU (CUDA_VISIBLE_DEVICES)");
  return gpus;
}

GpuTensors::GpuTensors(int gpu) : cuda_(driver()), calls_(cuda_) {
  Result<std::unique_ptr<cuda::Device>> device = cuda::Device::open(cuda_, gpu);
  if (!device) throw std::runtime_error(std::string(device.status().message()));
  device_ = std::move(*device);
  current_ = std::make_unique<cuda::Current>(cuda_, *device_, calls_);
  expect("cuStreamCreate", cuda_.create_stream(stream_));
  guard_ = std::make_unique<StreamGuard>(stream());
  expect("cuMemAllocAsync", cuda_.allocate(scratch_, kBeyondCaches, stream_));
  about_ = "cuda:" + std::to_string(gpu);
}

GpuTensors::~GpuTensors() {
  for (Tensor& tensor : tensors_) {
    if (tensor.copies > 0) (void)cuda_.free(tensor.first, stream_);
  }
  (void)cuda_.free(scratch_, stream_);
  (void)cuda_.destroy_stream(stream_);
}

void GpuTensors::expect(const char* function, int code) {
  if (!calls_.cuda(function, code)) throw std::runtime_error(calls_.failure());
}

void GpuTensors::copy(cuda::Address to, cuda::Address from, std::size_t bytes) {
  expect("cuMemcpyAsync", cuda_.copy(to, from, bytes, stream_));
}

void GpuTensors::use(std::span<std::byte> input, std::span<std::byte> output) {
  finish();
  take(tensors_[0], input);
  take(tensors_[1], output);
}

void GpuTensors::take(Tensor& tensor, std::span<std::byte> host) {
  drop(tensor);
  if (host.empty()) return;
  Tensor taken;
  taken.host = host;
  taken.pitch = (host.size() + kPitch - 1) / kPitch * kPitch;
  taken.copies = kBeyondCaches / taken.pitch + 1;
  expect("cuMemAllocAsync", cuda_.allocate(taken.first, taken.pitch * taken.copies, stream_));
  tensor = taken;
}

void GpuTensors::drop(Tensor& tensor) {
  if (tensor.copies > 0) expect("cuMemFreeAsync", cuda_.free(tensor.first, stream_));
  tensor = {};
}

void GpuTensors::upload(std::uint64_t calls) {
  turn_ = std::numeric_limits<std::size_t>::max();  // the next copy is the first
  bool any = false;
  for (const Tensor& tensor : tensors_) {
    const std::size_t copies = std::min<std::uint64_t>(calls, tensor.copies);
    if (copies == 0) continue;
    any = true;
    copy(tensor.first, reinterpret_cast<cuda::Address>(tensor.host.data()), tensor.host.size());
    // Twice as many each time: one by one they would take longer than the calls.
    for (std::size_t done = 1; done < copies; done *= 2)
      copy(tensor.at(done), tensor.first, tensor.pitch * std::min(done, copies - done));
  }
  if (any) copy_scratch();  // takes what was written out of the caches
  finish();
}

void GpuTensors::fetch() {
  for (const Tensor& tensor : tensors_) {
    if (tensor.copies > 0)
      copy(reinterpret_cast<cuda::Address>(tensor.host.data()), tensor.at(turn_),
           tensor.host.size());
  }
  finish();
}

TensorView GpuTensors::view(float* host, std::size_t count) const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.copies > 0 && reinterpret_cast<std::byte*>(host) == tensor.host.data())
      return {reinterpret_cast<void*>(tensor.at(turn_)), DType::float32, count,
              Device{DeviceType::cuda, static_cast<std::int16_t>(device_->index())}};
  }
  return {host, DType::float32, 0};  // a rank that has no such tensor
}

void GpuTensors::finish() {
  cuda::Event end{};
  if (!device_->acquire_event(calls_, end)) throw std::runtime_error(calls_.failure());
  expect("cuEventRecord", cuda_.record_event(end, stream_));
  int code = cuda_.query_event(end);
  while (code == cuda::kCudaNotReady) {
    std::this_thread::yield();  // ranks may share a core
    code = cuda_.query_event(end);
  }
  expect("cuEventQuery", code);
  device_->release_event(end);
}

void GpuTensors::copy_scratch() { copy(scratch_ + kBeyondCaches / 2, scratch_, kBeyondCaches / 2); }

void GpuTensors::measure_copies() {
  constexpr int kTimes = 8;
  copy_scratch();
  finish();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) copy_scratch();
  finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double speed = 1.0 * kTimes * kBeyondCaches / std::max(took.count(), 1e-9);
  char text[32];
  std::snprintf(text, sizeof text, ", copies %.0f GB/s", speed * 1e-9);
  about_ += text;
}

}  // namespace tutti::bench
