#pragma once

#include <cstdint>

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// While a guard lives, calls of this thread with tensors of a GPU belong to its stream (CUstream,
/// cudaStream_t), unless their options name another one. Guards can be nested; the innermost one
/// counts. Without a guard, calls belong to the default stream.
///
/// Lifetime: ends on the thread that made it, before the guard around it. The stream must live
///           until the operations are done.
/// Threads:  each thread has guards of its own.
class StreamGuard {
 public:
  /// `stream` 0: the default stream.
  explicit StreamGuard(std::uintptr_t stream) noexcept;
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  std::uintptr_t before_;
};

}  // namespace v0
}  // namespace tutti
