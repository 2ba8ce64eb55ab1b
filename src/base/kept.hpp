#pragma once

#include <atomic>
#include <utility>

namespace tutti::base {

/// Keeps memory until the process ends, where leak checkers find it: a library that cannot cancel
/// an operation may still use it.
template <class T>
void keep_for_good(T value) {
  struct Kept {
    T value;
    Kept* before;
  };
  static std::atomic<Kept*> last{nullptr};
  // relaxed: nobody reads what it points to.
  auto* const kept = new Kept{std::move(value), last.load(std::memory_order_relaxed)};
  while (!last.compare_exchange_weak(kept->before, kept, std::memory_order_relaxed)) {
  }
}

}  // namespace tutti::base
