#include "group/gpu_tensors.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include <tutti/error.hpp>

#include "base/log.hpp"
#include "cuda/kernels/kernels.hpp"
#include "cuda/library.hpp"
#include "cuda/packer.hpp"
#include "cuda/pause.hpp"

namespace tutti {
inline namespace v0 {
namespace {

using cuda::Address;
using cuda::Calls;
using cuda::Current;
using Clock = std::chrono::steady_clock;

/// How long a waiting thread polls the GPU without a pause.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr std::chrono::nanoseconds kPause = std::chrono::microseconds(50);
constexpr std::size_t kAligned = 16;  // bytes that a kernel reads at once
static_assert(LocalTensors::kMostSources <= cuda::kernels::kMostSources);

Address address_of(const TensorView& view) noexcept {
  return reinterpret_cast<Address>(view.data());
}

void check(const Calls& calls) {
  if (!calls.ok()) raise(calls.status(""));
}

}  // namespace

const cuda::Device& LocalGpus::device(int index) {
  const std::lock_guard lock(set_.mutex());
  Result<gpu::Gpu*> opened = set_.gpu(index);
  if (!opened) raise(opened.status());
  return *(*opened)->device;
}

bool LocalGpus::reduce(Calls& calls, int index, ReduceOp op, const TensorView& to,
                       std::span<const Address> sources, std::int64_t divisor,
                       cuda::Stream stream) {
  const std::lock_guard lock(set_.mutex());
  cuda::Reducer& reducer = set_.gpu(index).value()->reducer;
  const auto [known, asks] = kernels_.try_emplace(index, false);
  if (asks) {
    Calls loading(cuda_);
    const std::span<const std::byte> image = set_.direct().image;
    known->second = reducer.load(loading, cuda_, image);
    if (!known->second && !image.empty())
      base::log(base::Level::warning, "reductions of lists on cuda:" + std::to_string(index) +
                                          " are computed on the host: " + loading.failure());
  }
  if (known->second)
    (void)reducer.run(calls, op, to.dtype(), address_of(to), sources, to.count(), divisor, stream);
  return known->second;
}

void LocalGpus::free_later(DeferredFree memory) noexcept {
  {
    const std::lock_guard lock(set_.mutex());
    deferred_.push_back(std::move(memory));
  }
  free_deferred();
}

void LocalGpus::free_deferred() noexcept {
  const std::lock_guard lock(set_.mutex());
  std::erase_if(deferred_, [this](const DeferredFree& one) {
    {
      Calls calls(cuda_);
      const Current current(cuda_, *one.gpus.front().device, calls);
      if (!calls.ok() || cuda_.query_event(one.event) == cuda::kCudaNotReady) return false;
      (void)cuda_.destroy_event(one.event);
    }
    for (const PerGpu& gpu : one.gpus) {
      Calls calls(cuda_);
      const Current current(cuda_, *gpu.device, calls);
      if (!calls.ok()) continue;
      for (const Address address : gpu.made) (void)cuda_.free(address, gpu.stream);
      (void)cuda_.destroy_stream(gpu.stream);
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
  (void)gpu_of(index);
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
  // A forked child must not free the memory, nor may we while a library uses it.
  if (left_ || forks_ != base::fork_generation()) return;
  try {
    if (!finished(false)) {
      for (const auto& [index, stream] : followed_) {
        Calls calls(cuda_);
        const Current current(cuda_, gpus_->device(index), calls);
        if (calls.ok()) (void)cuda_.wait_event(static_cast<cuda::Stream>(stream), end_);
      }
    }
    gpus_->free_later({std::move(on_), end_});
  } catch (const std::exception&) {
    return;  // the GPU is lost
  }
}

std::size_t GpuTensors::gpu_of(int index) {
  const auto known = std::ranges::find_if(
      on_, [index](const PerGpu& gpu) { return gpu.device->index() == index; });
  if (known != on_.end()) return static_cast<std::size_t>(known - on_.begin());
  PerGpu gpu;
  gpu.device = &gpus_->device(index);
  on_.reserve(on_.size() + 1);
  Calls calls(cuda_);
  {
    const Current current(cuda_, *gpu.device, calls);
    if (calls.ok()) calls.cuda("cuStreamCreate", cuda_.create_stream(gpu.stream));
  }
  check(calls);
  on_.push_back(std::move(gpu));
  return on_.size() - 1;
}

void GpuTensors::order(const PerGpu& first, cuda::Stream second) {
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
  const PerGpu callers{&gpus_->device(index), static_cast<cuda::Stream>(stream), {}};
  Calls calls(cuda_);
  auto capture = cuda::Capture::none;
  {
    const Current current(cuda_, *callers.device, calls);
    capture = cuda::capture_of(calls, cuda_, callers.stream);
  }
  if (capture != cuda::Capture::none)
    raise(Outcome(
        Errc::unsupported,
        "tensors on " + to_string(Device{DeviceType::cuda, static_cast<std::int16_t>(index)}) +
            ": " + cuda::text_of(capture) +
            ", and this operation cannot be a part of it; call it outside of the capture"));
  check(calls);
  order(callers, main().stream);
  followed_.emplace(index, stream);
}

Address GpuTensors::allocate(PerGpu& gpu, std::size_t bytes) {
  if (bytes == 0) return 0;
  recorded_ = false;
  gpu.made.reserve(gpu.made.size() + 1);
  Calls calls(cuda_);
  Address made = 0;
  {
    const Current current(cuda_, *gpu.device, calls);
    if (calls.ok() && calls.cuda("cuMemAllocAsync", cuda_.allocate(made, bytes, gpu.stream)))
      gpu.made.push_back(made);
  }
  check(calls);
  return made;
}

TensorView GpuTensors::make(DType dtype, std::size_t count) {
  const Address made = allocate(on_.front(), count * size_of(dtype));
  return TensorView(reinterpret_cast<void*>(made), dtype, count,
                    Device{DeviceType::cuda, static_cast<std::int16_t>(main().device->index())});
}

void GpuTensors::copy_on(const PerGpu& gpu, const TensorView& view, Address row, bool packs) {
  recorded_ = false;
  Calls calls(cuda_);
  {
    const Current current(cuda_, *gpu.device, calls);
    if (calls.ok())
      (void)cuda::Packer(calls, cuda_, gpu.stream, packs).run({view, 0, view.count()}, row);
  }
  check(calls);
}

void GpuTensors::copy_across(const TensorView& view, Address row, bool packs) {
  if (view.count() == 0) return;
  recorded_ = false;
  const std::size_t at = gpu_of(view.device().index);
  Address its = address_of(view);
  if (!view.contiguous()) {
    its = allocate(on_[at], view.size_bytes());
    if (packs) {
      order(main(), on_[at].stream);  // main() has followed the streams of the caller
      copy_on(on_[at], view, its, true);
    }
    order(on_[at], main().stream);  // the memory was allocated on that stream
  }
  Calls calls(cuda_);
  {
    const Current current(cuda_, *main().device, calls);
    const cuda::Context ours = main().device->context();
    const cuda::Context theirs = on_[at].device->context();
    if (calls.ok())
      calls.cuda("cuMemcpyPeerAsync",
                 packs ? cuda_.copy_peer(row, ours, its, theirs, view.size_bytes(), main().stream)
                       : cuda_.copy_peer(its, theirs, row, ours, view.size_bytes(), main().stream));
  }
  check(calls);
  if (packs || view.contiguous()) return;
  order(main(), on_[at].stream);
  copy_on(on_[at], view, its, false);
  order(on_[at], main().stream);
}

void GpuTensors::copy_in(const TensorView& row, const TensorView& view) { copy(view, row, true); }

void GpuTensors::copy_out(const TensorView& view, const TensorView& row) { copy(view, row, false); }

void GpuTensors::copy(const TensorView& view, const TensorView& row, bool packs) {
  if (view.device().index == main().device->index())
    copy_on(main(), view, address_of(row), packs);
  else
    copy_across(view, address_of(row), packs);
}

/// An input for a kernel: the tensor itself if a kernel can read it, else a copy.
TensorView GpuTensors::near(const TensorView& source) {
  if (source.contiguous() && source.device().index == main().device->index() &&
      address_of(source) % kAligned == 0)
    return source;
  TensorView row = make(source.dtype(), source.count());
  copy_in(row, source);
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
    std::vector<Address> all;
    for (const TensorView& row : rows) all.push_back(address_of(row));
    on_gpu = calls.ok() && gpus_->reduce(calls, index, op, to, all, divisor, main().stream);
  }
  check(calls);
  if (!on_gpu) reduce_on_host(to, rows, op, divisor);
}

void GpuTensors::reduce_on_host(const TensorView& to, std::span<const TensorView> sources,
                                ReduceOp op, std::int64_t divisor) {
  // Copies to the host wait for the stream, and the stream for those of the caller.
  while (!finished(false)) {
    if (Outcome wrong = may_go_on_ ? may_go_on_() : Outcome(); !wrong.ok()) raise(std::move(wrong));
    cuda::pause(kPause);
  }
  CpuTensors host;
  std::vector<TensorView> rows;
  for (const TensorView& source : sources) {
    rows.push_back(host.make(source.dtype(), source.count()));
    copy_on(main(), source, address_of(rows.back()), true);
  }
  (void)finished(true);
  if (op == ReduceOp::avg)
    host.divide(rows.front(), divisor);
  else
    host.combine(rows.front(), rows, op);
  copy_on(main(), to, address_of(rows.front()), false);
  (void)finished(true);  // the host memory is freed now
}

void GpuTensors::record_end() {
  if (recorded_) return;
  for (std::size_t i = 1; i < on_.size(); ++i) order(on_[i], main().stream);
  Calls calls(cuda_);
  {
    const Current current(cuda_, *main().device, calls);
    if (calls.ok()) calls.cuda("cuEventRecord", cuda_.record_event(end_, main().stream));
  }
  check(calls);
  recorded_ = true;
}

bool GpuTensors::finished(bool may_wait) {
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

}  // namespace v0
}  // namespace tutti
