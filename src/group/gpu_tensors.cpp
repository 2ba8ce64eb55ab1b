#include "group/gpu_tensors.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <tutti/error.hpp>

#include "base/log.hpp"
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
constexpr std::size_t kAligned = 16;  // kernels take so many bytes at once

Address address_of(const TensorView& view) noexcept {
  return reinterpret_cast<Address>(view.data());
}

void check(const Calls& calls) {
  if (!calls.ok()) raise(calls.status(""));
}

}  // namespace

LocalGpus::~LocalGpus() {
  free_rests();
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

bool LocalGpus::has_kernels(int index) {
  const std::lock_guard lock(mutex_);
  Gpu& gpu = gpus_.at(index);
  if (std::exchange(gpu.asked, true)) return gpu.has_kernels;
  Calls calls(cuda_);
  gpu.has_kernels = gpu.reducer.load(calls, cuda_, image_);
  if (!gpu.has_kernels && !image_.empty())
    base::log(base::Level::warning, "reductions of lists on cuda:" + std::to_string(index) +
                                        " are computed on the host: " + calls.failure());
  return gpu.has_kernels;
}

bool LocalGpus::reduce(Calls& calls, int index, ReduceOp op, const TensorView& to,
                       std::span<const Address> sources, std::int64_t divisor,
                       cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  return gpus_.at(index).reducer.run(calls, op, to.dtype(), address_of(to), sources, to.count(),
                                     divisor, stream);
}

void LocalGpus::free_later(Rest rest) noexcept {
  {
    const std::lock_guard lock(mutex_);
    rests_.push_back(std::move(rest));
  }
  free_rests();
}

void LocalGpus::free_rests() noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(rests_, [this](const Rest& rest) {
    {
      Calls calls(cuda_);
      const Current current(cuda_, *rest.sides.front().device, calls);
      if (!calls.ok() || cuda_.query_event(rest.event) == cuda::kCudaNotReady) return false;
      (void)cuda_.destroy_event(rest.event);
    }
    for (const Side& side : rest.sides) {
      Calls calls(cuda_);
      const Current current(cuda_, *side.device, calls);
      if (!calls.ok()) continue;
      for (const Address address : side.made) (void)cuda_.free(address, side.stream);
      (void)cuda_.destroy_stream(side.stream);
    }
    return true;
  });
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
    : gpus_(std::move(gpus)), cuda_(gpus_->cuda()) {
  (void)side_of(index);
  Calls calls(cuda_);
  {
    const Current current(cuda_, *main().device, calls);
    if (calls.ok() && calls.cuda("cuEventCreate", cuda_.create_event(end_))) return;
  }
  {
    Calls undo(cuda_);
    const Current current(cuda_, *main().device, undo);
    if (undo.ok()) (void)cuda_.destroy_stream(main().stream);
  }
  check(calls);
}

GpuTensors::~GpuTensors() {
  // They belong to the parent of a fork, or to whoever may still use them.
  if (left_ || forks_ != base::fork_generation()) return;
  try {
    if (!over(false)) {
      for (const auto& [index, stream] : followed_) {
        Calls calls(cuda_);
        const Current current(cuda_, gpus_->device(index), calls);
        if (calls.ok()) (void)cuda_.wait_event(static_cast<cuda::Stream>(stream), end_);
      }
    }
    gpus_->free_later({std::move(sides_), end_});
  } catch (const std::exception&) {
    return;  // the GPU is lost
  }
}

std::size_t GpuTensors::side_of(int index) {
  const auto known = std::ranges::find_if(
      sides_, [index](const Side& side) { return side.device->index() == index; });
  if (known != sides_.end()) return static_cast<std::size_t>(known - sides_.begin());
  Side side;
  side.device = &gpus_->device(index);
  sides_.reserve(sides_.size() + 1);
  Calls calls(cuda_);
  {
    const Current current(cuda_, *side.device, calls);
    if (calls.ok()) calls.cuda("cuStreamCreate", cuda_.create_stream(side.stream));
  }
  check(calls);
  sides_.push_back(std::move(side));
  return sides_.size() - 1;
}

void GpuTensors::order(const Side& first, cuda::Stream second) {
  Calls calls(cuda_);
  {
    const Current current(cuda_, *first.device, calls);
    cuda::Event event{};
    if (calls.ok() && calls.cuda("cuEventCreate", cuda_.create_event(event))) {
      if (calls.cuda("cuEventRecord", cuda_.record_event(event, first.stream)))
        calls.cuda("cuStreamWaitEvent", cuda_.wait_event(second, event));
      (void)cuda_.destroy_event(event);
    }
  }
  check(calls);
}

void GpuTensors::follow(int index, std::uintptr_t stream) {
  const Side callers{&gpus_->device(index), static_cast<cuda::Stream>(stream), {}};
  Calls calls(cuda_);
  bool captured = false;
  {
    const Current current(cuda_, *callers.device, calls);
    captured = cuda::is_captured(calls, cuda_, callers.stream);
  }
  if (captured)
    raise(
        Status(Errc::unsupported,
               "a stream of its tensors is being captured into a CUDA graph, which this operation "
               "cannot be a part of; call it outside of the capture"));
  check(calls);
  order(callers, main().stream);
  followed_.emplace(index, stream);
}

Address GpuTensors::allocate(Side& side, std::size_t bytes) {
  if (bytes == 0) return 0;
  recorded_ = false;
  side.made.reserve(side.made.size() + 1);
  Calls calls(cuda_);
  Address made = 0;
  {
    const Current current(cuda_, *side.device, calls);
    if (calls.ok() && calls.cuda("cuMemAllocAsync", cuda_.allocate(made, bytes, side.stream)))
      side.made.push_back(made);
  }
  check(calls);
  return made;
}

TensorView GpuTensors::make(DType dtype, std::size_t count) {
  const Address made = allocate(sides_.front(), count * size_of(dtype));
  return TensorView(reinterpret_cast<void*>(made), dtype, count,
                    Device{DeviceType::cuda, static_cast<std::int16_t>(main().device->index())});
}

void GpuTensors::move(const Side& side, const TensorView& view, Address row, bool packs) {
  recorded_ = false;
  Calls calls(cuda_);
  {
    const Current current(cuda_, *side.device, calls);
    if (calls.ok())
      (void)cuda::Packer(calls, cuda_, side.stream, packs).run({view, 0, view.count()}, row);
  }
  check(calls);
}

void GpuTensors::move_across(const TensorView& view, Address row, bool packs) {
  if (view.count() == 0) return;
  recorded_ = false;
  const std::size_t at = side_of(view.device().index);
  Address its = address_of(view);
  if (!view.contiguous()) {
    its = allocate(sides_[at], view.size_bytes());
    if (packs) {
      order(main(), sides_[at].stream);  // behind the streams of the caller
      move(sides_[at], view, its, true);
    }
    order(sides_[at], main().stream);
  }
  Calls calls(cuda_);
  {
    const Current current(cuda_, *main().device, calls);
    const cuda::Context ours = main().device->context();
    const cuda::Context theirs = sides_[at].device->context();
    if (calls.ok())
      calls.cuda("cuMemcpyPeerAsync",
                 packs ? cuda_.copy_peer(row, ours, its, theirs, view.size_bytes(), main().stream)
                       : cuda_.copy_peer(its, theirs, row, ours, view.size_bytes(), main().stream));
  }
  check(calls);
  if (packs || view.contiguous()) return;
  order(main(), sides_[at].stream);
  move(sides_[at], view, its, false);
  order(sides_[at], main().stream);
}

void GpuTensors::copy(const TensorView& to, const TensorView& from) {
  const bool packs = to.contiguous() && to.device().index == main().device->index();
  const TensorView& view = packs ? from : to;
  const TensorView& row = packs ? to : from;
  if (view.device().index == main().device->index())
    move(main(), view, address_of(row), packs);
  else
    move_across(view, address_of(row), packs);
}

/// An input of a kernel: where it is, if a kernel can read it there, else a copy.
TensorView GpuTensors::near(const TensorView& source) {
  if (source.contiguous() && source.device().index == main().device->index() &&
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
  const int index = main().device->index();
  std::vector<TensorView> rows;
  for (const TensorView& source : sources) rows.push_back(near(source));
  recorded_ = false;
  Calls calls(cuda_);
  bool on_gpu = false;
  {
    const Current current(cuda_, *main().device, calls);
    on_gpu = calls.ok() && gpus_->has_kernels(index);
    if (on_gpu) {
      std::vector<Address> all;
      for (const TensorView& row : rows) all.push_back(address_of(row));
      (void)gpus_->reduce(calls, index, op, to, all, divisor, main().stream);
    }
  }
  check(calls);
  if (!on_gpu) reduce_on_host(to, rows, op, divisor);
}

void GpuTensors::reduce_on_host(const TensorView& to, std::span<const TensorView> sources,
                                ReduceOp op, std::int64_t divisor) {
  CpuTensors host;
  std::vector<TensorView> rows;
  for (const TensorView& source : sources) {
    rows.push_back(host.make(source.dtype(), source.count()));
    move(main(), source, address_of(rows.back()), true);
  }
  (void)over(true);
  if (op == ReduceOp::avg)
    host.divide(rows.front(), divisor);
  else
    host.combine(rows.front(), rows, op);
  move(main(), to, address_of(rows.front()), false);
  (void)over(true);  // the memory of the host goes
}

void GpuTensors::record_end() {
  if (std::exchange(recorded_, true)) return;
  for (std::size_t i = 1; i < sides_.size(); ++i) order(sides_[i], main().stream);
  Calls calls(cuda_);
  {
    const Current current(cuda_, *main().device, calls);
    if (calls.ok()) calls.cuda("cuEventRecord", cuda_.record_event(end_, main().stream));
  }
  check(calls);
}

bool GpuTensors::over(bool may_wait) {
  record_end();
  Calls calls(cuda_);
  int code = 0;
  {
    const Current current(cuda_, *main().device, calls);
    const Clock::time_point begun = Clock::now();
    while (calls.ok() && (code = cuda_.query_event(end_)) == cuda::kCudaNotReady && may_wait) {
      if (Clock::now() - begun < kSpin)
        std::this_thread::yield();
      else
        cuda::pause(kPause);
    }
    if (code != cuda::kCudaNotReady) calls.cuda("cuEventQuery", code);
  }
  check(calls);
  return code == 0;
}

}  // namespace tutti
