#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>

#include "gpu/gpus.hpp"

namespace tutti::staged {

/// Where the collectives of one group on GPUs go: to a backend for GPUs beside that of the CPUs
/// (NCCL), or by the CPUs. The ranks agree about it once, at the first of them: the backend for
/// GPUs it is if no two ranks share a GPU. Its group is made then, beside one of the CPUs that is
/// for it alone. All of it are calls of the CPUs, which keep the timeout and name a rank that does
/// not come.
///
/// Threads: one at a time (the lock of the world), but for `beside`.
class Choice {
 public:
  enum class State : std::uint8_t {
    unknown,
    asking,  ///< the ranks tell each other their GPUs
    making,  ///< the group of the CPUs beside it is being made
    cpus,    ///< all go by the CPUs
    beside,  ///< those that the backend for GPUs has, go there
  };

  Choice(Backend& cpus, const BesideOptions& options)
      : cpus_(cpus), options_(options), state_(options.make ? State::unknown : State::cpus) {}
  ~Choice() { give_back(); }
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

  [[nodiscard]] State state() const noexcept { return state_; }
  /// May this call go to the backend for GPUs, as far as is known? The same on all ranks.
  [[nodiscard]] bool may_take(const Collective& call) const;

  /// The next call of the CPUs, behind one that has compared the calls of all ranks. `gpu`: of this
  /// rank.
  [[nodiscard]] Result<Collective> next(cuda::CudaApi& cuda, const Gpu& gpu,
                                        const std::string& group);
  /// It has ended well.
  [[nodiscard]] Outcome take(const std::string& group);

  /// All calls before are there, so those that come now may go there at once.
  void open() noexcept {
    opened_.store(beside_, std::memory_order_release);  // pairs with the acquire in `opened`
  }
  /// Null while calls must wait for others, or where all go by the CPUs. From any thread.
  [[nodiscard]] Backend* opened() const noexcept {
    return opened_.load(std::memory_order_acquire);  // pairs with the release in `open`
  }
  /// Null until it is made.
  [[nodiscard]] Backend* beside() const noexcept { return beside_; }
  /// The backend for GPUs will be a part of it.
  void join(Backend& whole) noexcept {
    whole_ = &whole;
    if (beside_ != nullptr) beside_->join(whole);
  }
  /// Of a group that is gone; not under the lock of the world, as operations may be waited for.
  void give_back() noexcept;

 private:
  /// A rank tells this to the others.
  struct Note {
    std::uint64_t host = 0;  ///< of this boot of the kernel; 0: this rank cannot tell its GPU
    std::uint64_t gpu = 0;
  };
  void note_gpu(cuda::CudaApi& cuda, const Gpu& gpu);
  /// Why they cannot use it; empty: they can.
  [[nodiscard]] std::string why_not() const;

  Backend& cpus_;
  Backend* whole_ = nullptr;
  const BesideOptions& options_;
  State state_;
  Note mine_;
  std::vector<Note> all_;
  Backend* mesh_ = nullptr;  ///< a reference is held, and so of `beside_`
  Backend* beside_ = nullptr;
  std::atomic<Backend*> opened_{nullptr};
};

}  // namespace tutti::staged
