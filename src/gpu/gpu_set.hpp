#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/error.hpp>

#include "cuda/device.hpp"
#include "cuda/gpu_progress_thread.hpp"
#include "cuda/pinned_pool.hpp"
#include "cuda/reducer.hpp"

namespace tutti::gpu {

/// Options of copies from GPU to GPU within a host (Config::cuda_ipc).
struct DirectOptions {
  bool on = false;
  std::span<const std::byte> image = {};  ///< the kernels of reductions; empty: none
  /// Chosen so that moving and combining a slot takes as long as a rendezvous of eight ranks.
  std::size_t slot_bytes = std::size_t{32} << 20;
  /// From this size an all_reduce has two rounds: each rank reads fewer bytes, but one more
  /// rendezvous is needed.
  std::size_t two_rounds_from = std::size_t{4} << 20;
  /// Messages have separate slots for each receiver.
  std::size_t message_slot_bytes = std::size_t{8} << 20;
  /// A larger collective is staged through host memory in parts.
  std::size_t host_part_bytes = std::size_t{8} << 20;
};

/// How the groups of a world get a group on NCCL.
struct NcclOptions {
  std::string name = {};  ///< "nccl"
  /// Makes the NCCL group on top of a host group and takes over the reference of that. `group`: the
  /// name. No function: there is no NCCL.
  std::function<Result<Backend*>(Backend* cpus, const std::string& group)> make = {};
};

/// A GPU with what the groups of a world share on it.
struct Gpu {
  std::unique_ptr<cuda::Device> device;
  std::unique_ptr<cuda::PinnedPool> pool;
  cuda::Stream out{};  ///< copies results to the GPU, apart from the caller's streams
  cuda::Reducer reducer;
};

/// The driver, the GPUs and the progress thread that all groups of one world share on this rank.
/// Everything is created at the first call with a GPU tensor.
class GpuSet {
 public:
  /// Opens the driver; called again at each call until it succeeds.
  using Source = std::function<Result<cuda::CudaApi*>()>;

  explicit GpuSet(Source source, const DirectOptions& direct = {}, NcclOptions nccl = {})
      : source_(std::move(source)), direct_(direct), nccl_(std::move(nccl)) {}
  ~GpuSet();
  GpuSet(const GpuSet&) = delete;
  GpuSet& operator=(const GpuSet&) = delete;

  /// Why tensors on this GPU cannot be used; empty: they can. Calls cuInit.
  [[nodiscard]] std::string missing(int index);

  [[nodiscard]] const DirectOptions& direct() const noexcept { return direct_; }
  [[nodiscard]] const NcclOptions& nccl() const noexcept { return nccl_; }
  /// Guards everything below, and the state of the groups.
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  /// Opens the GPU at its first use.
  [[nodiscard]] Result<Gpu*> gpu(int index);
  /// The driver; valid after `gpu` has succeeded.
  [[nodiscard]] cuda::CudaApi& cuda() const noexcept { return *cuda_; }
  /// Starts the thread if it does not run, with all groups that were added before.
  [[nodiscard]] Outcome start();
  void add(const std::shared_ptr<cuda::Progressable>& group);
  /// An operation has begun: the thread must make progress.
  void wake() noexcept;
  /// Calls the callbacks of a destroyed group on the thread.
  void deliver(std::vector<cuda::Due> due);

 private:
  Source source_;
  const DirectOptions direct_;
  const NcclOptions nccl_;
  std::mutex mutex_;
  cuda::CudaApi* cuda_ = nullptr;
  std::map<int, Gpu> gpus_;
  std::vector<std::weak_ptr<cuda::Progressable>> groups_;  ///< until there is a thread
  std::unique_ptr<cuda::GpuProgressThread> thread_;
};

}  // namespace tutti::gpu
