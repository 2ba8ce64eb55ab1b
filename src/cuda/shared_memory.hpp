#pragma once

#include <cstddef>

#include "cuda/calls.hpp"

namespace tutti::cuda {

/// Memory of a GPU that ranks of a host share, as it is mapped here. It is there until all of them
/// have let go of it, in any order.
///
/// Threads: one at a time. All needs `Current`.
class SharedMemory {
 public:
  SharedMemory() = default;
  ~SharedMemory() { release(); }
  SharedMemory(SharedMemory&& other) noexcept { *this = static_cast<SharedMemory&&>(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  /// Memory of this GPU; `bytes` is a multiple of kMemoryStep. False: `calls` says why.
  bool make(Calls& calls, CudaApi& cuda, std::size_t bytes, int device);
  /// A descriptor for other ranks, which is the caller's to close.
  bool share(Calls& calls, int& descriptor);
  /// The memory of a rank, by its descriptor; `device`: ours, which reads it.
  bool open(Calls& calls, CudaApi& cuda, std::size_t bytes, int device, int descriptor);

  [[nodiscard]] Address address() const noexcept { return address_; }
  /// Nothing uses it here any more.
  void release() noexcept;
  /// For the rest of the process: something may use it that cannot be told to stop.
  void keep_for_ever() noexcept { cuda_ = nullptr; }

 private:
  bool map(Calls& calls, int device);

  CudaApi* cuda_ = nullptr;  ///< null: there is nothing to give back
  std::size_t bytes_ = 0;
  Memory memory_{};
  Address address_ = 0;
  bool mapped_ = false;
};

}  // namespace tutti::cuda
