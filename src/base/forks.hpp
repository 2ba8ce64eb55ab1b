#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <tutti/error.hpp>

namespace tutti::base {

namespace detail {
extern std::atomic<std::uint64_t> fork_generation;
}

/// Another number in each child of a fork: an object that keeps the number of its beginning knows
/// whether its process was forked since. One load; getpid would cost a system call.
[[nodiscard]] inline std::uint64_t fork_generation() noexcept {
  // relaxed: changes in a forked child only, while it has one thread.
  return detail::fork_generation.load(std::memory_order_relaxed);
}

/// The error for a child that calls a group which its parent made before the fork.
[[nodiscard]] Outcome forked_status();

/// Tells whether a fork has begun since this object was made. A descriptor opened meanwhile may be
/// in a child that does not know of it.
class ForkWatch {
 public:
  /// Waits for the end of forks that are under way.
  ForkWatch() noexcept;
  [[nodiscard]] bool forked() const noexcept;

 private:
  std::uint64_t begun_;
};

/// One T for each process, made at its first use and never destroyed. A forked child gets a new
/// one: its parent's may be locked by a thread that the child does not have.
template <class T>
class PerProcess {
 public:
  [[nodiscard]] T& get() {
    const std::uint64_t generation = fork_generation();
    Made* known = made_.load(std::memory_order_acquire);  // pairs with the exchange below
    if (known != nullptr && known->generation == generation) return known->value;
    Made* const fresh = new Made(generation, known);
    if (made_.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return fresh->value;
    delete fresh;
    return known->value;
  }
  /// That of this process if it was used before; else null.
  [[nodiscard]] T* if_made() noexcept {
    Made* const known = made_.load(std::memory_order_acquire);  // as above
    return known != nullptr && known->generation == fork_generation() ? &known->value : nullptr;
  }

 private:
  struct Made {
    Made(std::uint64_t made_in, Made* before) : generation(made_in), parents(before) {}
    const std::uint64_t generation;
    Made* const parents;  ///< never touched; kept, so that leak checkers find it
    T value;
  };
  std::atomic<Made*> made_{nullptr};
};

/// A mutex that nobody holds at the moment of a fork, so that the child finds it free and what it
/// guards whole. For objects that are never destroyed and are locked for a moment only.
class ForkMutex {
 public:
  ForkMutex() noexcept;
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void lock_all();
  static void unlock_all();
  friend struct ForkHandlers;

  std::mutex mutex_;
  ForkMutex* next_ = nullptr;
};

}  // namespace tutti::base
