#pragma once

#include <cstdint>

namespace tutti {

/// While it lives, calls that this thread makes with tensors of a GPU are on this stream (CUstream,
/// cudaStream_t), unless they name one (Details::stream). Guards may stand within each other; the
/// innermost one counts. Without one it is the default stream.
///
/// Lifetime: ends on the thread that made it, before the guard around it. The stream must live
///           until the operations are done.
/// Threads:  each thread has guards of its own.
class StreamGuard {
 public:
  /// From now on; 0: the default stream.
  explicit StreamGuard(std::uintptr_t stream) noexcept;
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  std::uintptr_t before_;
};

}  // namespace tutti
