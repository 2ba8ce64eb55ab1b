#include "backend/native/progress_thread.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/native/driver.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "base/no_signals.hpp"
#include "os/cpu_set.hpp"
#include "os/fd.hpp"
#include "os/system_error.hpp"

namespace tutti::native {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// While callers drive, the thread leaves the sockets to them. After this time it checks again.
constexpr auto kStandby = milliseconds(5);
// The time between two passes if this process may open no descriptors.
constexpr auto kWithoutDescriptors = milliseconds(5);

class Loop {
 public:
  Loop() { open_descriptors(); }

  /// False: there is no memory for it.
  bool add(Driver& driver) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      entries_.push_back({&driver, driver.wait_fds(), ++last_number_});
    } catch (const std::bad_alloc&) {
      return false;
    }
    if (serving_ == nullptr && !start()) {  // only callers drive
      entries_.pop_back();
      return false;
    }
    for (const int fd : entries_.back().fds) watch(fd);
    return true;
  }

  void remove(Driver& driver) {
    std::unique_lock lock(mutex_);
    const auto at = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& entry) { return entry.driver == &driver; });
    if (at == entries_.end()) return;
    if (has_descriptors_) {
      for (const int fd : at->fds) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    }
    const std::vector<engine::Finished> due = std::move(at->due);
    entries_.erase(at);
    if (entries_.empty() && serving_ != nullptr && serving_.get() != calling) end_threads(lock);
    lock.unlock();
    call_back(due);
  }

  void caller_sleeps(bool leaves) noexcept {
    if (calling == nullptr || calling->over) {
      if (leaves) kick();
      return;
    }
    const std::lock_guard lock(mutex_);
    calling->over = true;
    if (!start()) calling->over = false;
  }

  void kick() noexcept {
    if (!has_descriptors_.load(std::memory_order_acquire)) {  // pairs with open_descriptors
      kicked_.notify_one();  // if it comes just before the sleep, it is late by kWithoutDescriptors
      return;
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(kick_.get(), &one, sizeof(one));
  }

 private:
  struct Life {  ///< the state of one thread; under the mutex
    std::thread thread;
    bool stop = false;
    bool over = false;  ///< its callback waits and another thread serves; only it writes this
    bool ended = false;
  };
  struct Entry {
    Driver* driver;
    std::vector<int> fds;
    std::uint64_t number;                    ///< unique; the address of a driver may be used again
    std::uint64_t calls = 0;                 ///< Driver::calls() at the last pass
    std::vector<engine::Finished> due = {};  ///< callbacks to be made
    bool calling = false;                    ///< a thread makes callbacks: no other thread does
  };

  /// Call with the lock held. False: no thread could be started.
  bool start() noexcept {
    // Joins threads that have been replaced and have ended.
    for (const std::shared_ptr<Life>& life : lives_) {
      if (life->ended) life->thread.join();
    }
    std::erase_if(lives_, [](const std::shared_ptr<Life>& life) { return life->ended; });
    const base::NoSignals no_signals;
    bool started = false;
    try {
      lives_.reserve(lives_.size() + 1);
      auto life = std::make_shared<Life>();
      life->thread = std::thread([this, raw = life.get()] { run(*raw); });
      lives_.push_back(life);
      serving_ = std::move(life);
      started = true;
    } catch (const std::exception& problem) {
      base::log_limited(base::Level::error, "progress.thread",
                        std::string("no progress thread: ") + problem.what() +
                            "; operations go on while they are waited for only. " +
                            std::string(os::kNoThreadHint));
    }
    return started;
  }

  /// Ends all threads after the last driver was removed.
  void end_threads(std::unique_lock<std::mutex>& lock) {
    // `stop` is set for these threads only: another context may start a new one while we wait.
    std::vector<std::shared_ptr<Life>> ending = std::move(lives_);
    lives_.clear();
    serving_.reset();
    const auto ours = std::ranges::find(ending, calling, &std::shared_ptr<Life>::get);
    if (ours != ending.end()) {  // we are in a callback of it: it ends when that returns
      lives_.push_back(std::move(*ours));
      ending.erase(ours);
    }
    for (const std::shared_ptr<Life>& life : ending) life->stop = true;
    const auto has_ended = [](const std::shared_ptr<Life>& life) { return life->ended; };
    while (!std::ranges::all_of(ending, has_ended)) {
      kick();  // repeated, because a new thread may take a kick that was meant for these
      ended_.wait_for(lock, milliseconds(10));
    }
    lock.unlock();
    for (const std::shared_ptr<Life>& life : ending) life->thread.join();
    lock.lock();
  }

  static void call_back(const std::vector<engine::Finished>& due) {
    for (const engine::Finished& one : due) one.callback.function(one.callback.context, one.status);
  }

  /// Makes the callbacks of one driver. False: no driver has any.
  bool call_back_one(Life& life, std::unique_lock<std::mutex>& lock) {
    const auto at = std::ranges::find_if(
        entries_, [](const Entry& entry) { return !entry.calling && !entry.due.empty(); });
    if (at == entries_.end()) return false;
    at->calling = true;
    const std::uint64_t number = at->number;
    const std::vector<engine::Finished> due = std::exchange(at->due, {});
    std::rotate(at, at + 1, entries_.end());  // the others come first next time
    lock.unlock();
    // Without any lock: a callback may submit, wait and make groups.
    calling = &life;
    call_back(due);
    calling = nullptr;
    lock.lock();
    const auto again = std::ranges::find(entries_, number, &Entry::number);
    if (again != entries_.end()) again->calling = false;
    if (life.over) kick();  // the new thread makes callbacks of this driver that have come since
    return true;
  }

  void watch(int fd) {
    if (!has_descriptors_) return;  // wait_without_descriptors adds it later
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void run(Life& life) {
    ::pthread_setname_np(::pthread_self(), "tutti-progress");
    // The thread that started us may be bound to a CPU that a rank spins on.
    (void)os::take_affinity_of_process();
    std::unique_lock lock(mutex_);
    while (!life.stop && !life.over) {
      nanoseconds most = std::chrono::seconds(10);
      bool standby = false;
      for (Entry& entry : entries_) {
        const std::uint64_t calls = entry.driver->calls();
        const bool driven = entry.driver->has_callers() && !entry.driver->all_parked();
        // Callers that sleep leave the sockets to us. Callers that come and go read them.
        const bool leaves = driven || (calls != entry.calls && !entry.driver->has_callers());
        entry.calls = calls;
        if (!driven) (void)entry.driver->drive(entry.due);
        const Driver::Sleep sleep = entry.driver->prepare_sleep();
        if (leaves && sleep.listens) standby = true;
        most = std::min(most, sleep.most);
      }
      if (call_back_one(life, lock)) continue;
      lock.unlock();
      if (standby && most > nanoseconds(0)) {
        wait(/*kick_only=*/true, std::min<nanoseconds>(most, kStandby));
      } else {
        wait(/*kick_only=*/false, most);
      }
      lock.lock();
    }
    life.ended = true;
    ended_.notify_all();
  }

  /// Opens all three descriptors, or none. False: this process may open no more now.
  bool open_descriptors() {
    os::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    os::Fd kick_epoll(::epoll_create1(EPOLL_CLOEXEC));
    os::Fd kick(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll.valid() || !kick_epoll.valid() || !kick.valid()) return false;
    epoll_ = std::move(epoll);
    kick_epoll_ = std::move(kick_epoll);
    kick_ = std::move(kick);
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = kick_.get();
    ::epoll_ctl(kick_epoll_.get(), EPOLL_CTL_ADD, kick_.get(), &event);
    has_descriptors_.store(true, std::memory_order_release);  // pairs with kick
    watch(kick_.get());
    return true;
  }

  /// Does what wait() does if there are no descriptors to sleep on; tries to open them each time.
  void wait_without_descriptors(nanoseconds most) {
    base::log_limited(base::Level::warning, "progress.descriptors",
                      "the progress thread has no descriptors to sleep on and looks every 5 ms: "
                      "this process has too many open files; allow it more (ulimit -n)");
    std::unique_lock lock(mutex_);
    if (open_descriptors()) {
      for (const Entry& entry : entries_) {
        for (const int fd : entry.fds) watch(fd);
      }
      return;
    }
    kicked_.wait_for(lock, std::min<nanoseconds>(most, kWithoutDescriptors));
  }

  void wait(bool kick_only, nanoseconds most) {
    if (!has_descriptors_) return wait_without_descriptors(most);
    // kick_epoll_ watches only the kick, so that frames for callers do not wake us.
    const int epoll = kick_only ? kick_epoll_.get() : epoll_.get();
    const auto rounded =
        std::chrono::duration_cast<milliseconds>(most + milliseconds(1) - nanoseconds(1));
    epoll_event events[16];
    const int n = ::epoll_wait(epoll, events, 16, static_cast<int>(rounded.count()));
    for (int i = 0; i < n; ++i) {
      // Eventfds are drained; a transport's own epoll is level-triggered and drained by poll().
      std::uint64_t value = 0;
      // Under the lock: a driver that is removed closes its descriptor, and the number may serve
      // another.
      const std::lock_guard lock(mutex_);
      if (events[i].data.fd == kick_.get() || is_event_fd(events[i].data.fd)) {
        [[maybe_unused]] const auto got = ::read(events[i].data.fd, &value, sizeof(value));
      }
    }
  }

  /// Call with the lock held.
  [[nodiscard]] bool is_event_fd(int fd) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.fds.front() == fd; });
  }

  std::mutex mutex_;
  std::vector<Entry> entries_;
  os::Fd epoll_;
  os::Fd kick_;
  os::Fd kick_epoll_;
  std::atomic<bool> has_descriptors_{false};  ///< the three above; only kick reads it unlocked
  std::condition_variable kicked_;            ///< used instead of the descriptors
  std::vector<std::shared_ptr<Life>> lives_;
  std::shared_ptr<Life> serving_;  ///< the thread that is not replaced; null: there is none
  std::uint64_t last_number_ = 0;
  std::condition_variable ended_;
  /// The Life of this thread while it makes callbacks; null in all other threads.
  static inline thread_local Life* calling = nullptr;
};

base::PerProcess<Loop> loop;  // a forked child has none of the parent's threads

}  // namespace

bool ProgressThread::add(Driver& driver) { return loop.get().add(driver); }

void ProgressThread::remove(Driver& driver) {
  if (Loop* const made = loop.if_made()) made->remove(driver);
}

void ProgressThread::kick() noexcept {
  if (Loop* const made = loop.if_made()) made->kick();
}

void ProgressThread::caller_sleeps(bool leaves) noexcept {
  if (Loop* const made = loop.if_made()) made->caller_sleeps(leaves);
}

}  // namespace tutti::native
