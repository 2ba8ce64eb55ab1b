#include "group/gpu_tensors.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <tutti/error.hpp>

#include "base/forks.hpp"
#include "cuda/kernels/kernels.hpp"
#include "cuda/library.hpp"
#include "cuda/packer.hpp"
#include "cuda/pause.hpp"

namespace tutti {
namespace {

using cuda::Address;
using cuda::Calls;
using cuda::Current;
using Clock = std::chrono::steady_clock;

/// A thread that waits for the GPU looks at it all the time for so long, and then less often.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr std::chrono::nanoseconds kPause = std::chrono::microseconds(50);
/// For what was begun, at the end.
constexpr auto kEndTime = std::chrono::milliseconds(100);
constexpr std::size_t kAligned = 16;  // kernels take so many bytes at once

Address address_of(const TensorView& view) noexcept {
  return reinterpret_cast<Address>(view.data());
}

void check(const Calls& calls) {
  if (!calls.ok()) raise(calls.status(""));
}

}  // namespace

LocalGpus::~LocalGpus() {
  for (auto& [index, gpu] : gpus_) {
    Calls calls(cuda_);
    const Current current(cuda_, *gpu.device, calls);
    if (calls.ok()) gpu.reducer.unload();
  }
}

const cuda::Device& LocalGpus::device(int index) {
  const std::lock_guard lock(mutex_);
  const auto known = gpus_.find(index);
  if (known != gpus_.end()) return *known->second.device;
  Result<std::unique_ptr<cuda::Device>> opened = cuda::Device::open(cuda_, index);
  if (!opened) raise(opened.status());
  return *(gpus_[index].device = std::move(*opened));
}

bool LocalGpus::reduce(Calls& calls, int index, ReduceOp op, const TensorView& to,
                       std::span<const Address> sources, std::int64_t divisor,
                       cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  cuda::Reducer& reducer = gpus_.at(index).reducer;
  return reducer.load(calls, cuda_, image_) &&
         reducer.run(calls, op, to.dtype(), address_of(to), sources, to.count(), divisor, stream);
}

std::shared_ptr<LocalGpus> local_gpus() {
  struct Known {
    std::mutex mutex;
    std::shared_ptr<LocalGpus> gpus;
  };
  static base::PerProcess<Known> process;
  Known& known = process.get();
  const std::lock_guard lock(known.mutex);
  if (known.gpus == nullptr) {
    Result<cuda::CudaApi*> driver = cuda::driver();
    if (!driver) raise(driver.status());
    known.gpus = std::make_shared<LocalGpus>(**driver, cuda::kernels::image());
  }
  return known.gpus;
}

GpuTensors::GpuTensors(std::shared_ptr<LocalGpus> gpus, int index)
    : gpus_(std::move(gpus)), cuda_(gpus_->cuda()), device_(gpus_->device(index)) {
  Calls calls(cuda_);
  {
    const Current current(cuda_, device_, calls);
    if (calls.ok() && calls.cuda("cuEventCreate", cuda_.create_event(event_)) &&
        !calls.cuda("cuStreamCreate", cuda_.create_stream(stream_)))
      (void)cuda_.destroy_event(event_);
  }
  check(calls);
}

GpuTensors::~GpuTensors() {
  try {
    if (left_ || !wait_until(Clock::now() + kEndTime)) return;
  } catch (const Error&) {
    return;  // the GPU is lost
  }
  Calls calls(cuda_);
  const Current current(cuda_, device_, calls);
  if (!calls.ok()) return;
  for (const Address address : made_) (void)cuda_.free(address, stream_);
  (void)cuda_.destroy_stream(stream_);
  (void)cuda_.destroy_event(event_);
}

void GpuTensors::follow(int index, std::uintptr_t stream) {
  const cuda::Device& other = gpus_->device(index);
  const auto callers = static_cast<cuda::Stream>(stream);
  Calls calls(cuda_);
  cuda::Event before{};
  bool captured = false;
  {
    const Current current(cuda_, other, calls);
    captured = cuda::is_captured(calls, cuda_, callers);
    if (calls.ok() && !captured && calls.cuda("cuEventCreate", cuda_.create_event(before))) {
      if (calls.cuda("cuEventRecord", cuda_.record_event(before, callers)))
        calls.cuda("cuStreamWaitEvent", cuda_.wait_event(stream_, before));
      (void)cuda_.destroy_event(before);
    }
  }
  if (captured)
    raise(
        Status(Errc::unsupported,
               "a stream of its tensors is being captured into a CUDA graph, which this operation "
               "cannot be a part of; call it outside of the capture"));
  check(calls);
}

TensorView GpuTensors::make(DType dtype, std::size_t count) {
  Calls calls(cuda_);
  Address made = 0;
  const std::size_t bytes = count * size_of(dtype);
  if (bytes != 0) {
    const Current current(cuda_, device_, calls);
    made_.reserve(made_.size() + 1);
    if (calls.ok() && calls.cuda("cuMemAllocAsync", cuda_.allocate(made, bytes, stream_)))
      made_.push_back(made);
  }
  check(calls);
  return TensorView(reinterpret_cast<void*>(made), dtype, count,
                    Device{DeviceType::cuda, static_cast<std::int16_t>(device_.index())});
}

void GpuTensors::move(const TensorView& view, Address row, bool packs) {
  Calls calls(cuda_);
  {
    const Current current(cuda_, device_, calls);
    if (calls.ok())
      (void)cuda::Packer(calls, cuda_, stream_, packs).run({view, 0, view.count()}, row);
  }
  check(calls);
}

void GpuTensors::copy(const TensorView& to, const TensorView& from) {
  if (to.contiguous())
    move(from, address_of(to), true);
  else
    move(to, address_of(from), false);
}

TensorView GpuTensors::near(const TensorView& source) {
  if (source.contiguous() && source.device().index == device_.index() &&
      address_of(source) % kAligned == 0)
    return source;
  TensorView row = make(source.dtype(), source.count());
  copy(row, source);
  return row;
}

void GpuTensors::combine(const TensorView& to, std::span<const TensorView> sources, ReduceOp op) {
  reduce(to, sources, op, 1);
}

void GpuTensors::divide(const TensorView& row, std::int64_t divisor) {
  if (divisor > 1) reduce(row, {&row, 1}, ReduceOp::avg, divisor);
}

void GpuTensors::reduce(const TensorView& to, std::span<const TensorView> sources, ReduceOp op,
                        std::int64_t divisor) {
  if (!gpus_->has_kernels()) return reduce_on_host(to, sources, op, divisor);
  std::vector<Address> all;
  for (const TensorView& source : sources) all.push_back(address_of(near(source)));
  Calls calls(cuda_);
  {
    const Current current(cuda_, device_, calls);
    if (calls.ok()) (void)gpus_->reduce(calls, device_.index(), op, to, all, divisor, stream_);
  }
  check(calls);
}

void GpuTensors::reduce_on_host(const TensorView& to, std::span<const TensorView> sources,
                                ReduceOp op, std::int64_t divisor) {
  CpuTensors host;
  std::vector<TensorView> rows;
  for (const TensorView& source : sources) {
    rows.push_back(host.make(source.dtype(), source.count()));
    move(source, address_of(rows.back()), true);
  }
  wait();
  if (op == ReduceOp::avg)
    host.divide(rows.front(), divisor);
  else
    host.combine(rows.front(), rows, op);
  move(to, address_of(rows.front()), false);
  wait();  // the memory of the host goes
}

void GpuTensors::wait() { (void)wait_until(Clock::time_point::max()); }

bool GpuTensors::wait_until(Clock::time_point until) {
  Calls calls(cuda_);
  bool over = false;
  {
    const Current current(cuda_, device_, calls);
    if (calls.ok() && calls.cuda("cuEventRecord", cuda_.record_event(event_, stream_))) {
      const Clock::time_point begun = Clock::now();
      Clock::time_point now = begun;
      int code = cuda::kCudaNotReady;
      while ((code = cuda_.query_event(event_)) == cuda::kCudaNotReady && now < until) {
        if (now - begun < kSpin)
          std::this_thread::yield();
        else
          cuda::pause(kPause);
        now = Clock::now();
      }
      over = code == 0;
      if (code != cuda::kCudaNotReady) calls.cuda("cuEventQuery", code);
    }
  }
  check(calls);
  return over;
}

}  // namespace tutti
