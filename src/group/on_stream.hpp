#pragma once

#include <cstdint>

#include <tutti/backend/collective.hpp>

namespace tutti {
inline namespace v0 {

/// The stream of this thread's StreamGuard; 0: it has none.
[[nodiscard]] std::uintptr_t stream_of_thread() noexcept;

/// A call that gets this thread's stream (StreamGuard) if it has GPU tensors and names no stream.
/// Lifetime: until submit returns.
class OnStream {
 public:
  explicit OnStream(const Collective& call) noexcept;
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

  [[nodiscard]] const Collective& call() const noexcept { return call_; }

 private:
  Collective call_;
  Details details_;
};

}  // namespace v0
}  // namespace tutti
