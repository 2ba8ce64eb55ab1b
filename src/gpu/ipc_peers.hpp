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
#include "gpu/gpu_set.hpp"
#include "os/background_closer.hpp"
#include "os/fd.hpp"

namespace tutti::gpu {

/// The GPU memory that the ranks of a group on one host share: each rank fills four slots and has
/// mapped those of all others. Three host all_gathers exchange it and tell whether every rank has
/// mapped all; if not, elements are staged through host memory.
///
/// Threads: one at a time, under GpuSet::mutex.
class IpcPeers {
 public:
  enum class State : std::uint8_t { unknown, agreeing, direct, host };
  static constexpr int kExchanges = 3;
  static constexpr std::uint64_t kSlots = 4;  ///< see DirectCall

  /// `for_messages`: only rank 0, the sender, fills slots.
  IpcPeers(int rank, int size, const DirectOptions& options, bool for_messages);

  /// True if the call can be moved in parts, from GPU to GPU or through host memory. All ranks get
  /// the same answer, because it depends only on what the ranks compare of a call.
  [[nodiscard]] static bool may_be_split(const Collective& call, const call::Extent& extent);
  /// True if calls of this kind go from GPU to GPU, or if the ranks have not decided yet.
  [[nodiscard]] bool takes(Kind kind) const noexcept;
  [[nodiscard]] State state() const noexcept { return state_; }
  /// The GPU of this rank; null before its first call.
  [[nodiscard]] Gpu* gpu() const noexcept { return gpu_; }
  void set_gpu(Gpu* gpu) noexcept { gpu_ = gpu; }

  /// Prepares exchange `number`, whose host call is then `exchange`.
  void prepare(int number, cuda::CudaApi& cuda);
  [[nodiscard]] const Collective& exchange() const noexcept { return exchange_; }
  /// Takes the result of the exchange. The state is final after the last one, or after one that
  /// failed on a rank. `group`: the name, for the log.
  void take(int number, cuda::CudaApi& cuda, const std::string& group);

  [[nodiscard]] cuda::Address slot(int rank, std::uint64_t part) const noexcept;
  /// A slot for results of this rank, after the rendezvous of the part: no rank reads it any more,
  /// and this rank has not filled it yet.
  [[nodiscard]] cuda::Address results(std::uint64_t part) const noexcept {
    return slot(rank_, part + 2);
  }
  [[nodiscard]] std::size_t slot_bytes() const noexcept {
    return for_messages_ ? options_.message_slot_bytes : options_.slot_bytes;
  }
  [[nodiscard]] const DirectOptions& options() const noexcept { return options_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Numbers `count` parts and returns the first number. All ranks count alike.
  [[nodiscard]] std::uint64_t number_parts(std::uint64_t count) noexcept;

  /// Frees the memory. Nothing may use it any more.
  void release(cuda::CudaApi& cuda) noexcept;
  /// Leaks the memory, because a stream may still use it.
  void keep_for_ever() noexcept;

 private:
  /// A rank sends this to the others.
  struct Told {
    std::uint64_t host = 0;    ///< one number per boot of a host
    std::uint64_t socket = 0;  ///< names the socket that takes descriptors
    std::uint64_t secret = 0;  ///< a sender must know it
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
  std::string why_not_;  ///< the reason of this rank
  Told mine_;
  std::vector<Told> told_;
  std::uint64_t done_ = 0;  ///< exchanges 1 and 2: 1 if this rank has succeeded
  std::vector<std::uint64_t> all_done_;
  Collective exchange_;
  os::BackgroundCloser closer_;  ///< closes what strangers have left in our listener
  os::Fd listener_;
  os::Fd shared_;
  std::vector<cuda::SharedMemory> memory_;  ///< by rank
  std::uint64_t parts_ = 0;
};

}  // namespace tutti::gpu
