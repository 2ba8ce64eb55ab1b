#include "backend/native/progress_thread.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backend/native/driver.hpp"
#include "base/log.hpp"
#include "os/cpu_set.hpp"
#include "os/fd.hpp"

namespace tutti::native {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// While callers drive, the thread leaves the sockets to them and looks in again after so long.
constexpr auto kStandby = milliseconds(5);

class Loop {
 public:
  Loop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), kick_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    watch(kick_.get());
    (void)kick_only();  // made now: two threads may ask for it later
  }

  void add(Driver& driver) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({&driver, driver.wait_fds(), 0});
    for (const int fd : entries_.back().fds) watch(fd);
    if (thread_.joinable()) return;
    life_ = std::make_shared<Life>();
    try {
      thread_ = std::thread([this, life = life_] { run(*life); });
    } catch (const std::system_error& problem) {
      life_.reset();  // callers still drive; what nobody waits for stands still
      base::log(base::Level::error, std::string("no progress thread: ") + problem.what());
    }
  }

  void remove(Driver& driver) {
    std::unique_lock lock(mutex_);
    const auto at = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& entry) { return entry.driver == &driver; });
    if (at == entries_.end()) return;
    for (const int fd : at->fds) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    entries_.erase(at);
    if (!entries_.empty() || !thread_.joinable() || std::this_thread::get_id() == thread_.get_id())
      return;
    // The last one: the thread ends, so that a process that has destroyed its groups is as before.
    // Its order to stop is its own: another context may start the next thread while we wait.
    const std::shared_ptr<Life> life = std::move(life_);
    std::thread ended = std::move(thread_);
    life->stop = true;
    while (!life->ended) {
      kick();  // again and again: that next thread may take a kick that was not meant for it
      ended_.wait_for(lock, milliseconds(10));
    }
    lock.unlock();
    ended.join();
  }

  void kick() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(kick_.get(), &one, sizeof(one));
  }

 private:
  struct Life {  ///< of one thread; under the mutex
    bool stop = false;
    bool ended = false;
  };
  struct Entry {
    Driver* driver;
    std::vector<int> fds;
    std::uint64_t calls;  ///< of the driver, at the last look
  };

  void watch(int fd) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void run(Life& life) {
    ::pthread_setname_np(::pthread_self(), "tutti-progress");
    // The thread that started us may be bound to a CPU that a rank spins on.
    (void)os::take_affinity_of_process();
    std::vector<engine::Finished> due;
    std::unique_lock lock(mutex_);
    while (!life.stop) {
      nanoseconds most = std::chrono::seconds(10);
      bool standby = false;
      for (Entry& entry : entries_) {
        const std::uint64_t calls = entry.driver->calls();
        const bool driven = entry.driver->has_callers() && !entry.driver->all_parked();
        // Callers who sleep leave the sockets to us; callers who come and go do not.
        if (driven || (calls != entry.calls && !entry.driver->has_callers())) standby = true;
        entry.calls = calls;
        if (!driven) (void)entry.driver->drive(due);
        most = std::min(most, entry.driver->prepare_sleep());
      }
      lock.unlock();
      // Without any lock: a callback may submit, wait and make groups.
      for (const engine::Finished& one : due)
        one.callback.function(one.callback.context, one.status);
      if (!std::exchange(due, {}).empty()) most = nanoseconds(0);
      if (standby && most > nanoseconds(0)) {
        wait(kick_only(), std::min<nanoseconds>(most, kStandby));
      } else {
        wait(epoll_.get(), most);
      }
      lock.lock();
    }
    life.ended = true;
    ended_.notify_all();
  }

  // An epoll of the kick alone: what callers receive must not wake us.
  int kick_only() {
    if (!kick_epoll_.valid()) {
      kick_epoll_ = os::Fd(::epoll_create1(EPOLL_CLOEXEC));
      epoll_event event = {};
      event.events = EPOLLIN;
      event.data.fd = kick_.get();
      ::epoll_ctl(kick_epoll_.get(), EPOLL_CTL_ADD, kick_.get(), &event);
    }
    return kick_epoll_.get();
  }

  void wait(int epoll, nanoseconds most) {
    const auto rounded =
        std::chrono::duration_cast<milliseconds>(most + milliseconds(1) - nanoseconds(1));
    epoll_event events[16];
    const int n = ::epoll_wait(epoll, events, 16, static_cast<int>(rounded.count()));
    for (int i = 0; i < n; ++i) {
      // Eventfds are drained; a transport's own epoll is level-triggered and drained by poll().
      std::uint64_t value = 0;
      // Under the lock: whoever is removed closes its descriptor, and the number may serve another.
      const std::lock_guard lock(mutex_);
      if (events[i].data.fd == kick_.get() || is_event_fd(events[i].data.fd)) {
        [[maybe_unused]] const auto got = ::read(events[i].data.fd, &value, sizeof(value));
      }
    }
  }

  /// With the lock held.
  [[nodiscard]] bool is_event_fd(int fd) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.fds.front() == fd; });
  }

  std::mutex mutex_;
  std::vector<Entry> entries_;
  os::Fd epoll_;
  os::Fd kick_;
  os::Fd kick_epoll_;
  std::thread thread_;
  std::shared_ptr<Life> life_;  ///< of thread_
  std::condition_variable ended_;
};

std::atomic<Loop*> instance{nullptr};  // never destroyed: contexts may end at exit

Loop& loop() {
  Loop* known = instance.load(std::memory_order_acquire);  // pairs with the exchange below
  if (known != nullptr) return *known;
  auto fresh = std::make_unique<Loop>();
  if (instance.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
    return *fresh.release();
  return *known;
}
std::atomic<bool> started{false};

}  // namespace

void ProgressThread::forget_after_fork() noexcept {
  // The parent's loop stays where it is: its descriptors are shared with the parent, its thread is
  // not here, and its mutex may be held by it.
  instance.store(nullptr, std::memory_order_relaxed);  // a forked child has one thread
  started = false;
}

void ProgressThread::add(Driver& driver) {
  started = true;
  loop().add(driver);
}

void ProgressThread::remove(Driver& driver) {
  if (started) loop().remove(driver);
}

void ProgressThread::kick() noexcept {
  if (started) loop().kick();
}

}  // namespace tutti::native
