#pragma once

#include <unistd.h>

#include <chrono>

#include "os/futex.hpp"

namespace tutti::native {

/// The parts of a driver lock. tests/models has other ones.
struct LockParts {
  using Word = os::FutexWord;
  static void wait(Word& word, std::uint32_t expected, std::chrono::nanoseconds most) noexcept {
    os::futex_wait(word, expected, most, false);
  }
  static void wake_one(Word& word) noexcept { os::futex_wake(word, 1, false); }
  [[nodiscard]] static std::uint32_t this_thread() noexcept {
    // initial-exec: one load, also in a shared library.
    [[gnu::tls_model("initial-exec")]] static constinit thread_local std::uint32_t id = 0;
    if (id == 0) [[unlikely]]
      id = static_cast<std::uint32_t>(::gettid());
    return id;
  }
};

/// The right to drive the engine: a small lock whose holder can see that others want it.
template <class Parts>
class BasicDriverLock {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  void lock() noexcept {
    if (!take()) [[unlikely]]
      (void)lock_slow(Deadline::max());
  }
  /// False: this thread holds it already and was interrupted by a signal handler, so it would wait
  /// for itself.
  [[nodiscard]] bool lock_unless_ours() noexcept {
    if (take()) [[likely]]
      return true;
    return !is_ours() && lock_slow(Deadline::max());
  }
  /// Tries once, and then until the deadline. Also false if `lock_unless_ours` would be false.
  [[nodiscard]] bool lock_until(Deadline deadline) noexcept {
    return take() || (!is_ours() && lock_slow(deadline));
  }
  [[nodiscard]] bool try_lock() noexcept { return take(); }
  void unlock() noexcept {
    // release: pairs with the acquire in take and lock_slow.
    if ((word_.exchange(kFree, std::memory_order_release) & kWanted) != 0) [[unlikely]]
      Parts::wake_one(word_);
  }
  /// A thread sleeps until the holder unlocks. A hint.
  [[nodiscard]] bool wanted() const noexcept {
    return (word_.load(std::memory_order_relaxed) & kWanted) != 0;
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kWanted = std::uint32_t{1} << 31;  // beside the holder's thread id

  [[nodiscard]] bool is_ours() const noexcept {
    // relaxed: only we write our own number.
    return (word_.load(std::memory_order_relaxed) & ~kWanted) == Parts::this_thread();
  }
  [[nodiscard]] bool take() noexcept {
    std::uint32_t expected = kFree;
    // acquire: pairs with the release in unlock; everything the last driver wrote is seen.
    return word_.compare_exchange_strong(expected, Parts::this_thread(), std::memory_order_acquire);
  }
  bool lock_slow(Deadline deadline) noexcept {
    constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(100);
    std::uint32_t seen = word_.load(std::memory_order_relaxed);  // a hint: exchanged below
    while (true) {
      if (seen == kFree) {
        // Keeps kWanted: other threads may sleep too. acquire: as in take.
        if (word_.compare_exchange_weak(seen, Parts::this_thread() | kWanted,
                                        std::memory_order_acquire))
          return true;
        continue;
      }
      // relaxed: a mark for the holder, which orders nothing.
      if ((seen & kWanted) == 0 &&
          !word_.compare_exchange_weak(seen, seen | kWanted, std::memory_order_relaxed))
        continue;
      std::chrono::nanoseconds most = kLook;
      if (deadline != Deadline::max()) {
        const auto left = deadline - std::chrono::steady_clock::now();
        if (left <= left.zero()) return false;
        if (left < most) most = left;
      }
      Parts::wait(word_, seen | kWanted, most);
      seen = word_.load(std::memory_order_relaxed);  // as above
    }
  }

  typename Parts::Word word_{kFree};
};

using DriverLock = BasicDriverLock<LockParts>;

}  // namespace tutti::native
