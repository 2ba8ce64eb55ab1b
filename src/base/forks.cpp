#include "base/forks.hpp"

#include <pthread.h>
#include <sched.h>

#include <utility>

namespace tutti::base {

namespace detail {
std::atomic<std::uint64_t> fork_generation{0};
}

namespace {

std::atomic<std::uint64_t> begun{0};
std::atomic<std::uint64_t> ended{0};

std::atomic<ForkMutex*> mutexes{nullptr};  // a list, the newest first
ForkMutex* locked = nullptr;               // where it began at the fork; under all of its mutexes

}  // namespace

ForkMutex::ForkMutex() noexcept {
  next_ = mutexes.load();
  while (!mutexes.compare_exchange_weak(next_, this)) {
  }
}

void ForkMutex::lock_all() {
  ForkMutex* const first = mutexes.load();
  for (ForkMutex* one = first; one != nullptr; one = one->next_) one->lock();
  if (first != nullptr) locked = first;
}

void ForkMutex::unlock_all() {
  // The next is read first: once it is unlocked, another fork may begin. Newer ones are not ours.
  for (ForkMutex* one = std::exchange(locked, nullptr); one != nullptr;) {
    ForkMutex* const next = one->next_;
    one->unlock();
    one = next;
  }
}

// Registered at the start of the program, so that no lock guards it.
struct ForkHandlers {
  static void prepare() {
    ForkMutex::lock_all();
    begun.fetch_add(1);
  }
  static void in_parent() {
    ended.fetch_add(1);
    ForkMutex::unlock_all();
  }
  static void in_child() {
    detail::fork_generation.fetch_add(1, std::memory_order_relaxed);  // the child has one thread
    begun.store(0);
    ended.store(0);
    ForkMutex::unlock_all();
  }
};

namespace {
[[maybe_unused]] const int kWatched =
    ::pthread_atfork(ForkHandlers::prepare, ForkHandlers::in_parent, ForkHandlers::in_child);
}  // namespace

Outcome forked_status() {
  return Outcome(
      Errc::unsupported,
      "this process was forked after init_process_group; a child cannot use its parent's "
      "groups: start workers before init, or call init_process_group in the child's program");
}

ForkWatch::ForkWatch() noexcept {
  // A fork takes up to some ms where there is much memory.
  while (begun_ = begun.load(), begun_ != ended.load()) ::sched_yield();
}

bool ForkWatch::forked() const noexcept { return begun.load() != begun_; }

}  // namespace tutti::base
