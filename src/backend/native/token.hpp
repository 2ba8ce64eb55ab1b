#pragma once

#include "os/futex.hpp"

namespace tutti::native {

/// The right to drive the engine: a small lock whose holder can see that others want it (D2).
class Token {
 public:
  void lock() noexcept {
    std::uint32_t expected = kFree;
    // acquire: pairs with the release in unlock; everything the last driver wrote is seen.
    if (word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) [[likely]]
      return;
    lock_slow();
  }
  [[nodiscard]] bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);  // as in lock
  }
  void unlock() noexcept {
    // release: pairs with the acquire in lock.
    if (word_.exchange(kFree, std::memory_order_release) == kWanted) [[unlikely]]
      os::futex_wake(word_, 1, false);
  }
  /// Somebody sleeps until the holder lets go. A hint.
  [[nodiscard]] bool wanted() const noexcept {
    return word_.load(std::memory_order_relaxed) == kWanted;
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kWanted = 2;

  void lock_slow() noexcept {
    while (word_.exchange(kWanted, std::memory_order_acquire) != kFree) {  // as in lock
      os::futex_wait(word_, kWanted, std::chrono::milliseconds(100), false);
    }
  }

  os::FutexWord word_{kFree};
};

}  // namespace tutti::native
