#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/backend/collective.hpp>
#include <tutti/tutti.hpp>

#include "cuda/device.hpp"
#include "cuda/library.hpp"

namespace tutti::test {

/// How many there are; 0 also where there is no driver.
inline int gpus_of_driver() {
  Result<cuda::CudaApi*> driver = cuda::driver();
  int count = 0;
  if (!driver || (*driver)->init() != 0 || (*driver)->device_count(count) != 0) return 0;
  return count;
}

/// The GPU of a rank.
struct Gpu {
  cuda::CudaApi& cuda;
  int index = 0;
};

/// The memory of a call's tensors, copied to a GPU: whole ranges, so tensors that share memory
/// share it there, too. A failure of CUDA ends the test program.
class GpuStage {
 public:
  GpuStage(const Gpu& gpu, const Collective& call) : gpu_(gpu) {
    add(call.input, false);
    add(call.output, true);
    if (call.details != nullptr) {
      stream_of_call_ = static_cast<cuda::Stream>(call.details->stream);
      for (const TensorView& view : call.details->inputs) add(view, false);
      for (const TensorView& view : call.details->outputs) add(view, true);
      for (const Piece& piece : call.details->input_pieces) add(piece.view, false);
      for (const Piece& piece : call.details->output_pieces) add(piece.view, true);
      if (call.details->factor.count() > 1) add(call.details->factor, false);
    }
    if (ranges_.empty()) return;
    merge();
    Result<std::unique_ptr<cuda::Device>> device = cuda::Device::open(gpu.cuda, gpu.index);
    if (!device) fail(device.status().message());
    device_ = std::move(*device);
    cuda::Calls calls(gpu.cuda);
    const cuda::Current current(gpu.cuda, *device_, calls);
    calls.cuda("cuStreamCreate", gpu.cuda.create_stream(stream_));
    for (Range& range : ranges_) {
      calls.cuda("cuMemAllocAsync", gpu.cuda.allocate(range.device, range.bytes(), stream_));
      calls.cuda("cuMemcpyAsync", gpu.cuda.copy(range.device, range.begin, range.bytes(), stream_));
    }
    synchronize(calls);
  }
  ~GpuStage() {
    if (device_ == nullptr) return;
    cuda::Calls calls(gpu_.cuda);
    const cuda::Current current(gpu_.cuda, *device_, calls);
    // Of a call that has failed, copies may still run: the stream of the call comes behind them.
    cuda::Event behind{};
    if (calls.ok() && device_->acquire_event(calls, behind)) {
      calls.cuda("cuEventRecord", gpu_.cuda.record_event(behind, stream_of_call_));
      calls.cuda("cuStreamWaitEvent", gpu_.cuda.wait_event(stream_, behind));
    }
    for (const Range& range : ranges_)
      calls.cuda("cuMemFreeAsync", gpu_.cuda.free(range.device, stream_));
    synchronize(calls);
    device_->release_event(behind);
    (void)gpu_.cuda.destroy_stream(stream_);
  }
  GpuStage(const GpuStage&) = delete;
  GpuStage& operator=(const GpuStage&) = delete;

  /// Where it is on the GPU; of memory that is not staged: as it is.
  [[nodiscard]] void* place_of(void* host) const {
    const auto at = reinterpret_cast<std::uintptr_t>(host);
    for (const Range& range : ranges_) {
      if (at >= range.begin && at < range.end)
        return reinterpret_cast<void*>(range.device + (at - range.begin));
    }
    return host;
  }
  /// Copies what was written back, once.
  void fetch() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(fetched_, true) || device_ == nullptr) return;
    cuda::Calls calls(gpu_.cuda);
    const cuda::Current current(gpu_.cuda, *device_, calls);
    for (const Range& range : ranges_) {
      if (range.written)
        calls.cuda("cuMemcpyAsync",
                   gpu_.cuda.copy(range.begin, range.device, range.bytes(), stream_));
    }
    synchronize(calls);
  }

 private:
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool written = false;
    cuda::Address device = 0;
    [[nodiscard]] std::size_t bytes() const noexcept { return end - begin; }
  };

  void add(const TensorView& view, bool written) {
    if (view.count() == 0 || view.data() == nullptr || view.device() != Device()) return;
    std::int64_t first = 0;
    std::int64_t last = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(view.dims()); ++d) {
      const std::int64_t reach = (view.shape()[d] - 1) * view.strides()[d];
      (reach < 0 ? first : last) += reach;
    }
    const auto size = static_cast<std::int64_t>(size_of(view.dtype()));
    const auto data = reinterpret_cast<std::uintptr_t>(view.data());
    ranges_.push_back({data + static_cast<std::uintptr_t>(first * size),
                       data + static_cast<std::uintptr_t>((last + 1) * size), written, 0});
  }
  void merge() {
    std::ranges::sort(ranges_, {}, &Range::begin);
    std::vector<Range> merged;
    for (const Range& range : ranges_) {
      if (merged.empty() || range.begin >= merged.back().end) {
        merged.push_back(range);
        continue;
      }
      merged.back().end = std::max(merged.back().end, range.end);
      merged.back().written |= range.written;
    }
    ranges_ = std::move(merged);
  }
  void synchronize(cuda::Calls& calls) {
    cuda::Event fence{};
    bool ok = calls.ok() && device_->acquire_event(calls, fence) &&
              calls.cuda("cuEventRecord", gpu_.cuda.record_event(fence, stream_));
    while (ok) {
      const int code = gpu_.cuda.query_event(fence);
      if (code == 0) break;
      ok = code == cuda::kCudaNotReady || calls.cuda("cuEventQuery", code);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    device_->release_event(fence);
    if (!ok) fail(calls.failure());
  }
  [[noreturn]] static void fail(std::string_view why) {
    std::fprintf(stderr, "copying tensors to the GPU: %s\n", std::string(why).c_str());
    std::abort();
  }

  Gpu gpu_;
  std::vector<Range> ranges_;
  std::unique_ptr<cuda::Device> device_;
  cuda::Stream stream_{};
  cuda::Stream stream_of_call_{};
  std::mutex mutex_;
  bool fetched_ = false;
};

}  // namespace tutti::test
