#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti::os {

using FutexWord = std::atomic<std::uint32_t>;
static_assert(sizeof(FutexWord) == 4 && FutexWord::is_always_lock_free);

/// Sleeps while `word` is `expected`, at most `timeout`. Returns early at will: check and repeat.
/// `shared`: the word may be woken by another process.
void futex_wait(FutexWord& word, std::uint32_t expected, std::chrono::nanoseconds timeout,
                bool shared) noexcept;
void futex_wake(FutexWord& word, int count, bool shared) noexcept;

/// A full fence of this thread: what it has stored is seen before what it loads next.
/// (Spelled so in the source because GCC's thread sanitizer has no std::atomic_thread_fence.)
inline void full_fence() noexcept { __sync_synchronize(); }
/// A full fence in every thread of every registered process of the machine (whoever goes to
/// sleep pays, so that a publisher needs no fence). False where the system does not have it.
[[nodiscard]] bool global_fence() noexcept;
/// Takes part in other processes' global_fence. False where the system does not have it.
[[nodiscard]] bool register_global_fence() noexcept;

/// These fences for code that is a template over them (transport/shm/park.hpp).
struct Fences {
  static void full() noexcept { full_fence(); }
  static void all_threads() noexcept { (void)global_fence(); }
};

}  // namespace tutti::os
