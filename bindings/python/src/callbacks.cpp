#include "callbacks.hpp"

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>

#include "gil.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

enum class State : int { absent, running, stopping, stopped };

// A stack, newest first. No mutex: a child that was forked while one is held could never lock it.
std::atomic<Errand*> left{nullptr};
std::atomic<State> state{State::absent};
// Counts the wake-ups; what a forked child finds in it may be anything, which costs it a turn.
std::counting_semaphore<> wanted{0};

void in_forked_child() noexcept {
  // The thread is the parent's, and so is what was left for it.
  if (state.load() == State::running) state.store(State::absent);
  left.store(nullptr);
}

}  // namespace

void Callbacks::leave(std::unique_ptr<Errand> errand) noexcept {
  if (state.load() != State::running) {
    (void)errand.release();  // its end would need the GIL
    return;
  }
  Errand* const mine = errand.release();
  // relaxed: only the exchange below counts.
  mine->next_ = left.load(std::memory_order_relaxed);
  // release: pairs with the acquire in `run_all`, which reads *mine.
  while (!left.compare_exchange_weak(mine->next_, mine, std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
  wanted.release();
}

namespace {

// Takes all and turns their order. With the GIL.
template <class Next>
void run_all(Next next) noexcept {
  // acquire: pairs with the release in `leave`.
  Errand* newest = left.exchange(nullptr, std::memory_order_acquire);
  Errand* oldest = nullptr;
  while (newest != nullptr) {
    Errand* const older = next(newest);
    next(newest) = oldest;
    oldest = newest;
    newest = older;
  }
  while (oldest != nullptr) {
    const std::unique_ptr<Errand> errand(oldest);
    oldest = next(oldest);
    errand->run();
  }
}

}  // namespace

void Callbacks::start() {
  static const int watched = pthread_atfork(nullptr, nullptr, &in_forked_child);
  (void)watched;
  State expected = State::absent;
  if (!state.compare_exchange_strong(expected, State::running)) return;
  const auto next = [](Errand* errand) -> Errand*& { return errand->next_; };
  try {
    std::thread([next] {
      pthread_setname_np(pthread_self(), "tutti-callbacks");
      while (state.load() == State::running) {
        wanted.acquire();
        const WithGil locked;
        run_all(next);
      }
      {
        const WithGil locked;  // what was left while the last ones ran
        run_all(next);
      }
      state.store(State::stopped);
    }).detach();
  } catch (...) {
    state.store(State::absent);
    throw;
  }
}

void Callbacks::stop() noexcept {
  State expected = State::running;
  if (!state.compare_exchange_strong(expected, State::stopping)) return;
  wanted.release();
  const WithoutGil unlocked;
  // A callback that never returns shall not keep the process from ending.
  constexpr auto kPatience = std::chrono::seconds(5);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (state.load() != State::stopped && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace tutti::python
