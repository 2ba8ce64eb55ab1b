#include "os/background_closer.hpp"

#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/no_signals.hpp"

namespace tutti::os {

struct BackgroundCloser::State {
  std::mutex mutex;
  std::deque<Fd> open;
  std::size_t closing = 0;  ///< 1: the thread closes one
  bool has_thread = false;

  /// The descriptors that no thread closes stay open: closing them here might block.
  ~State() {
    for (Fd& fd : open) (void)fd.release();
  }
};

BackgroundCloser::BackgroundCloser() : state_(std::make_shared<State>()) {}

void BackgroundCloser::close(Fd fd) {
  if (!fd.valid()) return;
  const std::lock_guard lock(state_->mutex);
  state_->open.push_back(std::move(fd));
  if (state_->has_thread) return;
  try {
    const base::NoSignals no_signals;
    std::thread([state = state_] {
      std::unique_lock guard(state->mutex);
      while (!state->open.empty()) {
        Fd next = std::move(state->open.front());
        state->open.pop_front();
        state->closing = 1;
        guard.unlock();
        next.reset();
        guard.lock();
        state->closing = 0;
      }
      state->has_thread = false;
    }).detach();
    state_->has_thread = true;
  } catch (const std::exception&) {
    // The next call tries again.
  }
}

std::size_t BackgroundCloser::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open.size() + state_->closing;
}

}  // namespace tutti::os
