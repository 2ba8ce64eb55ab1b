#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/forks.hpp"
#include "cuda/calls.hpp"
#include "cuda/device.hpp"
#include "gpu/gpu_set.hpp"
#include "group/local_tensors.hpp"

namespace tutti {
inline namespace v0 {

/// The GpuSet on which the group layer itself copies and reduces (`..._multigpu`), and memory of
/// calls that have ended.
///
/// Threads: any.
class LocalGpus {
 public:
  /// `image`: the kernels. A GPU for which it has none reduces on the host.
  LocalGpus(cuda::CudaApi& cuda, std::span<const std::byte> image)
      : cuda_(cuda),
        set_([&cuda]() -> Result<cuda::CudaApi*> { return &cuda; }, {.image = image}) {}
  ~LocalGpus() { free_deferred(); }
  LocalGpus(const LocalGpus&) = delete;
  LocalGpus& operator=(const LocalGpus&) = delete;

  [[nodiscard]] cuda::CudaApi& cuda() const noexcept { return cuda_; }
  /// The GPU of this number. Throws if there is none.
  [[nodiscard]] const cuda::Device& device(int index);
  /// As Reducer::run, on a GPU that `device` has opened. Needs `Current`. False: there are no
  /// kernels for this GPU.
  [[nodiscard]] bool reduce(cuda::Calls& calls, int index, ReduceOp op, const TensorView& to,
                            std::span<const cuda::Address> sources, std::int64_t divisor,
                            cuda::Stream stream);

  /// The stream and the memory of a GpuTensors on one GPU.
  struct PerGpu {
    const cuda::Device* device = nullptr;
    cuda::Stream stream{};
    std::vector<cuda::Address> made;
  };
  /// Memory of a call that has ended, which a GPU may still use until the event has passed.
  struct DeferredFree {
    std::vector<PerGpu> gpus;  ///< the event is of the first one's GPU
    cuda::Event event{};
  };
  /// Frees the memory now, or in a later call.
  void free_later(DeferredFree memory) noexcept;

 private:
  void free_deferred() noexcept;

  cuda::CudaApi& cuda_;
  gpu::GpuSet set_;  ///< its mutex guards everything below, too
  std::map<int, bool> kernels_;
  std::vector<DeferredFree> deferred_;
};

/// The GPUs of this process. Throws (unsupported) if there is no driver.
[[nodiscard]] std::shared_ptr<LocalGpus> local_gpus();

/// Tensors of one or several GPUs. Rows and reductions are on one GPU, on a stream of this object
/// that follows the caller's streams. A tensor of another GPU is copied from GPU to GPU; if it has
/// strides, its own GPU packs it first.
class GpuTensors final : public LocalTensors {
 public:
  GpuTensors(std::shared_ptr<LocalGpus> gpus, int index);
  /// Does not wait. Makes the streams of the caller wait for copies that still run, so that the
  /// caller may free its tensors in the order of its streams.
  ~GpuTensors() override;

  /// Orders our later work on GPU `index` behind the present work of the caller's `stream`. Throws
  /// (unsupported) if the stream is being captured into a graph.
  void follow(int index, std::uintptr_t stream);
  /// Sets a function that is called while this object waits for the caller's streams; its error is
  /// thrown.
  void set_may_go_on(std::function<Outcome()> may_go_on) { may_go_on_ = std::move(may_go_on); }

  [[nodiscard]] TensorView make(DType dtype, std::size_t count) override;
  void copy_in(const TensorView& row, const TensorView& view) override;
  void copy_out(const TensorView& view, const TensorView& row) override;
  void combine(const TensorView& to, std::span<const TensorView> sources, ReduceOp op) override;
  void divide(const TensorView& row, std::int64_t divisor) override;
  [[nodiscard]] bool finished(bool may_wait) override;
  void keep_memory() noexcept override { left_ = true; }
  [[nodiscard]] std::uintptr_t stream() const noexcept override {
    return static_cast<std::uintptr_t>(main().stream);
  }

 private:
  using PerGpu = LocalGpus::PerGpu;
  /// The GPU that has the rows.
  [[nodiscard]] const PerGpu& main() const noexcept { return on_.front(); }
  [[nodiscard]] std::size_t gpu_of(int index);
  [[nodiscard]] cuda::Address allocate(PerGpu& gpu, std::size_t bytes);
  /// Orders later work of `second` behind the present work of `first`.
  void order(const PerGpu& first, cuda::Stream second);
  /// Copies between a tensor and a row that are both on this GPU, or with the row on the host.
  void copy_on(const PerGpu& gpu, const TensorView& view, cuda::Address row, bool packs);
  /// Copies between a tensor and a row that are on different GPUs.
  void copy_across(const TensorView& view, cuda::Address row, bool packs);
  /// Copies to the row if `packs`, else from it.
  void copy(const TensorView& view, const TensorView& row, bool packs);
  [[nodiscard]] TensorView near(const TensorView& source);
  void reduce(const TensorView& to, std::span<const TensorView> sources, ReduceOp op,
              std::int64_t divisor);
  void reduce_on_host(const TensorView& to, std::span<const TensorView> sources, ReduceOp op,
                      std::int64_t divisor);
  void record_end();

  const std::uint64_t forks_ = base::fork_generation();
  std::shared_ptr<LocalGpus> gpus_;
  cuda::CudaApi& cuda_;
  std::vector<PerGpu> on_;  ///< the first has the rows
  std::set<std::pair<int, std::uintptr_t>> followed_;
  std::function<Outcome()> may_go_on_;
  cuda::Event end_{};      ///< comes after all work, if `recorded_`
  bool recorded_ = false;  ///< no work was begun since end_ was recorded
  bool left_ = false;
};

}  // namespace v0
}  // namespace tutti
