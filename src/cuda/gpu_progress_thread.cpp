#include "cuda/gpu_progress_thread.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/condition.hpp"
#include "base/no_signals.hpp"

namespace tutti::cuda {
namespace {

/// Between two passes, while something runs. Tensors that go in parts have some steps for each.
constexpr auto kShortPause = std::chrono::microseconds(20);
constexpr auto kLongPause = std::chrono::microseconds(500);

}  // namespace

GpuProgressThread::GpuProgressThread() {
  const base::NoSignals no_signals;
  thread_ = std::thread([shared = shared_] { run(shared); });
}

GpuProgressThread::~GpuProgressThread() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ends = true;
  }
  shared_->changed.notify_all();
  // A callback may drop the last handle of the world, on that thread.
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void GpuProgressThread::add(const std::shared_ptr<Progressable>& one) {
  const std::lock_guard lock(shared_->mutex);
  shared_->all.push_back(one);
}

void GpuProgressThread::deliver(std::vector<Due> due) {
  if (due.empty()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    std::ranges::move(due, std::back_inserter(shared_->late));
  }
  wake();
}

void GpuProgressThread::wake() noexcept {
  {
    const std::lock_guard lock(shared_->mutex);
    if (std::exchange(shared_->needed, true)) return;
  }
  shared_->changed.notify_all();
}

void GpuProgressThread::run(const std::shared_ptr<Shared>& shared) noexcept {
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; else short pauses would have 50 us more
  auto pause = kShortPause;
  std::unique_lock lock(shared->mutex);
  while (true) {
    while (!shared->needed && !shared->ends) base::wait(shared->changed, lock);
    if (shared->ends && shared->late.empty()) return;
    shared->needed = false;
    std::vector<Due> due = std::exchange(shared->late, {});
    std::vector<std::shared_ptr<Progressable>> all;
    std::erase_if(shared->all, [&](const std::weak_ptr<Progressable>& one) {
      all.push_back(one.lock());
      return all.back() == nullptr;
    });
    lock.unlock();
    Progressable::Progress state = Progressable::Progress::idle;
    for (const auto& one : all)
      if (one != nullptr) state = std::max(state, one->make_progress(due));
    all.clear();
    for (const Due& one : due) one.callback.function(one.callback.context, one.outcome);
    lock.lock();
    pause =
        state == Progressable::Progress::waiting ? std::min(2 * pause, kLongPause) : kShortPause;
    if (state == Progressable::Progress::idle) continue;
    shared->changed.wait_for(lock, pause, [&] { return shared->ends; });
    shared->needed = true;
  }
}

}  // namespace tutti::cuda
