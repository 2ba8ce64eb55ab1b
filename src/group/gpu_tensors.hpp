#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/calls.hpp"
#include "cuda/device.hpp"
#include "cuda/reducer.hpp"
#include "group/local_tensors.hpp"

namespace tutti {

/// The GPUs that a group works on beside its backend: contexts, and the kernels of reductions.
///
/// Threads: any.
class LocalGpus {
 public:
  /// `image`: the kernels; where it is empty reductions are computed on the host.
  LocalGpus(cuda::CudaApi& cuda, std::span<const std::byte> image) : cuda_(cuda), image_(image) {}
  ~LocalGpus();
  LocalGpus(const LocalGpus&) = delete;
  LocalGpus& operator=(const LocalGpus&) = delete;

  [[nodiscard]] cuda::CudaApi& cuda() const noexcept { return cuda_; }
  [[nodiscard]] bool has_kernels() const noexcept { return !image_.empty(); }
  /// The GPU of this number. Throws where there is none.
  [[nodiscard]] const cuda::Device& device(int index);
  /// As Reducer::run, on a GPU that was asked for. Needs `Current`.
  bool reduce(cuda::Calls& calls, int index, ReduceOp op, const TensorView& to,
              std::span<const cuda::Address> sources, std::int64_t divisor, cuda::Stream stream);

 private:
  struct Gpu {
    std::unique_ptr<cuda::Device> device;
    cuda::Reducer reducer;
  };
  cuda::CudaApi& cuda_;
  const std::span<const std::byte> image_;
  std::mutex mutex_;
  std::map<int, Gpu> gpus_;
};

/// Those of this process, with the driver that is there. Throws (unsupported) where there is none.
[[nodiscard]] std::shared_ptr<LocalGpus> local_gpus();

/// Tensors of one GPU or several. Memory and work are on one of them, in the order of a stream of
/// its own, which follows the streams of the caller.
class GpuTensors final : public LocalTensors {
 public:
  GpuTensors(std::shared_ptr<LocalGpus> gpus, int index);
  /// Waits a moment for what was begun; what takes longer keeps its memory for good.
  ~GpuTensors() override;

  /// What comes begins behind all that this stream of the caller was given, on the GPU of that
  /// number. Throws (unsupported) where the stream is being captured into a graph.
  void follow(int index, std::uintptr_t stream);

  [[nodiscard]] TensorView make(DType dtype, std::size_t count) override;
  void copy(const TensorView& to, const TensorView& from) override;
  void combine(const TensorView& to, std::span<const TensorView> sources, ReduceOp op) override;
  void divide(const TensorView& row, std::int64_t divisor) override;
  void wait() override;
  void leave() noexcept override { left_ = true; }
  [[nodiscard]] std::uintptr_t stream() const noexcept override {
    return static_cast<std::uintptr_t>(stream_);
  }

 private:
  /// An input of a kernel: where it is, if a kernel can read it there, else a copy.
  [[nodiscard]] TensorView near(const TensorView& source);
  void reduce(const TensorView& to, std::span<const TensorView> sources, ReduceOp op,
              std::int64_t divisor);
  void reduce_on_host(const TensorView& to, std::span<const TensorView> sources, ReduceOp op,
                      std::int64_t divisor);
  /// Between a tensor and a row on a GPU or the host.
  void move(const TensorView& view, cuda::Address row, bool packs);

  /// False: what was begun was not over until then.
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point until);

  std::shared_ptr<LocalGpus> gpus_;
  cuda::CudaApi& cuda_;
  const cuda::Device& device_;
  cuda::Stream stream_{};
  cuda::Event event_{};
  std::vector<cuda::Address> made_;
  bool left_ = false;
};

}  // namespace tutti
