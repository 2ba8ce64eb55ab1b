#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>

#include "call/extent.hpp"
#include "cuda/shared_memory.hpp"
#include "gpu/gpus.hpp"
#include "os/background_closer.hpp"
#include "os/fd.hpp"

namespace tutti::staged {

/// Memory of the GPUs of all ranks of a group on one host, which each of them has mapped: four
/// slots of a rank for what others read. So elements go from GPU to GPU. The ranks agree by three
/// all_gathers of their CPUs whether all of them have it; if not, elements go by way of the host.
///
/// Threads: one at a time (the lock of the world). Methods that take `Calls` need `Current`.
class Peers {
 public:
  enum class State : std::uint8_t { unknown, agreeing, direct, staged };
  static constexpr int kExchanges = 3;
  static constexpr std::uint64_t kSlots = 4;  ///< as DirectCall's order needs

  /// `for_messages`: only rank 0 has something that others read.
  Peers(int rank, int size, const DirectOptions& options, bool for_messages);

  /// True if the call can be moved in parts, from GPU to GPU or by way of the host. All ranks give
  /// the same answer in the same call: it depends on what the CPUs compare of a call.
  [[nodiscard]] static bool may_be_split(const Collective& call, const call::Extent& extent);
  /// Do such calls go from GPU to GPU, as far as is known? It depends on what the ranks have
  /// agreed.
  [[nodiscard]] bool takes(Kind kind) const noexcept;
  [[nodiscard]] State state() const noexcept { return state_; }
  /// That of this rank, from its first call on.
  [[nodiscard]] Gpu* gpu() const noexcept { return gpu_; }
  void set_gpu(Gpu* gpu) noexcept { gpu_ = gpu; }

  /// Before exchange `number`; afterwards its call can be made.
  void prepare(int number, cuda::CudaApi& cuda);
  [[nodiscard]] const Collective& exchange() const noexcept { return exchange_; }
  /// After it. From the last one on, or from one that a rank has failed, the state is known.
  /// `group`: its name, for the log.
  void take(int number, cuda::CudaApi& cuda, const std::string& group);

  [[nodiscard]] cuda::Address slot(int rank, std::uint64_t part) const noexcept;
  /// For results of this rank on their way, when all ranks have met for this part: nobody reads
  /// that slot any more, and this rank fills it after that.
  [[nodiscard]] cuda::Address results(std::uint64_t part) const noexcept {
    return slot(rank_, part + 2);
  }
  [[nodiscard]] std::size_t slot_bytes() const noexcept {
    return for_messages_ ? options_.message_slot_bytes : options_.slot_bytes;
  }
  [[nodiscard]] const DirectOptions& options() const noexcept { return options_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Parts of calls get numbers, which all ranks count alike; the first of `count` new ones.
  [[nodiscard]] std::uint64_t number_parts(std::uint64_t count) noexcept;

  /// Nothing uses the memory here any more.
  void give_back() noexcept;
  /// A stream may still use it.
  void keep_for_ever() noexcept;

 private:
  /// A rank tells this to the others.
  struct Told {
    std::uint64_t host = 0;    ///< of this boot of the kernel
    std::uint64_t socket = 0;  ///< where it waits for descriptors
    std::uint64_t secret = 0;  ///< without which it takes none
    std::uint32_t able = 0;
    std::uint32_t kernels = 0;
  };

  void make(cuda::CudaApi& cuda);
  void send();
  void receive(cuda::CudaApi& cuda);
  void cannot(const std::string& why);
  [[nodiscard]] std::size_t bytes_of(std::size_t rank) const noexcept;
  [[nodiscard]] int first_unable(int number) const;

  int rank_;
  int size_;
  DirectOptions options_;
  bool for_messages_;
  State state_ = State::unknown;
  Gpu* gpu_ = nullptr;
  bool kernels_ = false;
  std::string why_not_;  ///< this rank
  Told mine_;
  std::vector<Told> told_;
  std::uint64_t done_ = 0;  ///< exchanges 1 and 2: this rank has done its part
  std::vector<std::uint64_t> all_done_;
  Collective exchange_;
  os::BackgroundCloser closer_;  ///< of what strangers have left in our listener
  os::Fd listener_;
  os::Fd shared_;
  std::vector<cuda::SharedMemory> memory_;  ///< by rank
  std::uint64_t parts_ = 0;
};

}  // namespace tutti::staged
