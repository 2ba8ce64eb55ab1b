#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "cuda/calls.hpp"

namespace tutti::cuda {

class PinnedPool;

/// Memory of the host that a GPU reads and writes by itself. Goes back to its pool in the end, when
/// no stream may use it any more.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  ~PinnedBlock() { release(); }
  PinnedBlock(PinnedBlock&& other) noexcept { *this = std::move(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  void release() noexcept;
  /// For the rest of the process: somebody may use it that cannot be told to stop.
  void keep_for_ever() noexcept { pool_ = nullptr; }

 private:
  friend class PinnedPool;
  PinnedPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Blocks of pinned memory for one operation after the other, since to pin memory takes longer than
/// to copy it. Blocks that nobody uses stay, up to kMostIdle bytes of them.
///
/// Threads: one at a time, under a lock of the caller.
class PinnedPool {
 public:
  static constexpr std::size_t kMostIdle = std::size_t{256} << 20;

  explicit PinnedPool(CudaApi& cuda) : cuda_(cuda) {}
  /// Needs `Current`, and that all blocks are back.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// A block of at least so many bytes. Needs `Current`. False: a function has failed, or there is
  /// no memory; `calls` says which.
  bool acquire(Calls& calls, std::size_t bytes, PinnedBlock& made);

 private:
  friend class PinnedBlock;
  struct Idle {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  void put_back(std::byte* data, std::size_t bytes) noexcept;
  void free(std::byte* data, std::size_t bytes) noexcept;

  CudaApi& cuda_;
  std::vector<Idle> idle_;
  std::size_t idle_bytes_ = 0;
};

}  // namespace tutti::cuda
