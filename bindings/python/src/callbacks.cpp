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
std::atomic<Task*> left{nullptr};
std::atomic<State> state{State::absent};
// Counts the wake-ups. A forked child may find any value, which costs one extra turn.
std::counting_semaphore<> wanted{0};

void in_forked_child() noexcept {
  // The thread and its tasks are the parent's.
  if (state.load() == State::running) state.store(State::absent);
  left.store(nullptr);
}

}  // namespace

void Callbacks::leave(std::unique_ptr<Task> task) noexcept {
  if (state.load() != State::running) {
    (void)task.release();  // its destructor would need the GIL
    return;
  }
  Task* const mine = task.release();
  // relaxed: only the exchange below counts.
  mine->next_ = left.load(std::memory_order_relaxed);
  // release: pairs with the acquire in `run_all`, which reads *mine.
  while (!left.compare_exchange_weak(mine->next_, mine, std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
  wanted.release();
}

namespace {

// Runs all tasks, oldest first. With the GIL.
template <class Next>
void run_all(Next next) noexcept {
  // acquire: pairs with the release in `leave`.
  Task* newest = left.exchange(nullptr, std::memory_order_acquire);
  Task* oldest = nullptr;
  while (newest != nullptr) {
    Task* const older = next(newest);
    next(newest) = oldest;
    oldest = newest;
    newest = older;
  }
  while (oldest != nullptr) {
    const std::unique_ptr<Task> task(oldest);
    oldest = next(oldest);
    task->run();
  }
}

}  // namespace

void Callbacks::start() {
  static const int watched = pthread_atfork(nullptr, nullptr, &in_forked_child);
  (void)watched;
  State expected = State::absent;
  if (!state.compare_exchange_strong(expected, State::running)) return;
  const auto next = [](Task* task) -> Task*& { return task->next_; };
  try {
    std::thread([next] {
      pthread_setname_np(pthread_self(), "tutti-callbacks");
      while (state.load() == State::running) {
        wanted.acquire();
        const WithGil locked;
        run_all(next);
      }
      {
        const WithGil locked;  // tasks that were queued while the last ones ran
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
  // A callback that never returns must not keep the process alive.
  constexpr auto kPatience = std::chrono::seconds(5);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (state.load() != State::stopped && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace tutti::python
