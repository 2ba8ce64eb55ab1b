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
#include "cuda/passes.hpp"
#include "cuda/pinned_pool.hpp"
#include "cuda/reducer.hpp"

namespace tutti::staged {

/// How tensors may go from GPU to GPU within a host (Config::cuda_ipc).
struct DirectOptions {
  bool on = false;
  std::span<const std::byte> image = {};  ///< the kernels of reductions; empty: there are none
  /// A GPU moves and combines so much in the time that the CPUs of eight ranks need to meet.
  std::size_t slot_bytes = std::size_t{32} << 20;
  /// An all_reduce of so many bytes has two rounds: fewer bytes are read, but the CPUs meet once
  /// more.
  std::size_t two_rounds_from = std::size_t{4} << 20;
  /// A rank has slots of its own for each rank that it sends such messages to.
  std::size_t message_slot_bytes = std::size_t{8} << 20;
  /// A collective of more goes by way of the host in parts.
  std::size_t host_part_bytes = std::size_t{8} << 20;
};

/// A backend for GPUs that the groups of a world may agree on (NCCL).
struct BesideOptions {
  std::string name = {};  ///< "nccl"
  /// Makes it beside a group of the CPUs, whose reference it takes over; `group`: its name. No
  /// function: there is none.
  std::function<Result<Backend*>(Backend* cpus, const std::string& group)> make = {};
};

/// A GPU as the groups of a world use it.
struct Gpu {
  std::unique_ptr<cuda::Device> device;
  std::unique_ptr<cuda::PinnedPool> pool;
  cuda::Stream out{};  ///< results go to the GPU on it, beside what the caller's streams do
  cuda::Reducer reducer;
};

/// What all groups of one world on this rank have in common: the driver, the GPUs, a thread that
/// looks at what runs. Nothing of it exists before the first call with a tensor of a GPU.
class Gpus {
 public:
  /// Gives the driver; asked at each call until it does.
  using Source = std::function<Result<cuda::CudaApi*>()>;

  explicit Gpus(Source source, const DirectOptions& direct = {}, BesideOptions beside = {})
      : source_(std::move(source)), direct_(direct), beside_(std::move(beside)) {}
  ~Gpus();
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  /// Why a tensor on this GPU cannot be taken; empty: it can. Calls cuInit.
  [[nodiscard]] std::string missing(int index);

  [[nodiscard]] const DirectOptions& direct() const noexcept { return direct_; }
  [[nodiscard]] const BesideOptions& beside() const noexcept { return beside_; }
  /// All below, and the state of the groups, is under this lock.
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  /// Opens it at its first use.
  [[nodiscard]] Result<Gpu*> gpu(int index);
  /// Of a GPU that is open.
  [[nodiscard]] cuda::CudaApi& cuda() const noexcept { return *cuda_; }
  /// The thread, made at its first use. Groups that were added before are known to it.
  [[nodiscard]] Outcome start();
  void add(const std::shared_ptr<cuda::Passing>& group);
  /// There is something to make progress with.
  void wake() noexcept;
  /// Calls callbacks of a group that is gone, on the thread.
  void deliver(std::vector<cuda::Due> due);

 private:
  [[nodiscard]] Outcome open();

  Source source_;
  const DirectOptions direct_;
  const BesideOptions beside_;
  std::mutex mutex_;
  cuda::CudaApi* cuda_ = nullptr;
  std::map<int, Gpu> gpus_;
  std::vector<std::weak_ptr<cuda::Passing>> groups_;  ///< until there is a thread
  std::unique_ptr<cuda::Passes> passes_;
};

}  // namespace tutti::staged
