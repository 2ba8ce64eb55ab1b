#include "backend/mpi/driver.hpp"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "backend/mpi/library.hpp"
#include "backend/mpi/world.hpp"
#include "base/condition.hpp"
#include "base/deadline.hpp"
#include "base/log.hpp"
#include "base/no_signals.hpp"

namespace tutti::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

/// Passes between two looks at the clock and for notes.
constexpr unsigned kLookEvery = 64;
/// Passes between two moments in which others can have the lock.
constexpr unsigned kLetGoEvery = 16;
/// MPI has nothing to sleep on. So a caller that waits polls all the time at first, then less
/// often.
constexpr auto kSpinTime = microseconds(200);
constexpr auto kShortPause = microseconds(50);
constexpr auto kLongPause = microseconds(500);
constexpr auto kLongWait = std::chrono::milliseconds(50);
/// Time for MPI_Finalize if requests were abandoned, and for the others to leave broken groups.
constexpr auto kFinalizeTime = std::chrono::seconds(5);
/// For a call that has the lock, at the end of the process.
constexpr auto kLockTime = std::chrono::seconds(1);

void pause_for(microseconds time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec pause{seconds.count(), static_cast<long>((time - seconds).count()) * 1000};
  (void)::ppoll(nullptr, 0, &pause, nullptr);
}

std::string_view name_of(Threading threading) noexcept {
  constexpr std::string_view kNames[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                         "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
  return kNames[static_cast<int>(threading)];
}

Outcome failed(Api& api, const char* what, int code) {
  return Outcome(Errc::internal,
                 std::string(what) + " of " + api.info().name + " failed: " + api.error_text(code));
}

}  // namespace

Result<std::unique_ptr<Driver>> Driver::make(Api& api) {
  std::unique_ptr<Driver> driver(new Driver(api));
  if (api.finalized())
    return Outcome(Errc::unsupported,
                   "MPI was finalised in this process and cannot be begun again; keep it (and a "
                   "group on it) until the process ends");
  if (!api.initialized()) {
    if (const int code = api.init(Threading::serialized, driver->threading_); code != 0)
      return failed(api, "MPI_Init_thread", code);
    driver->initialised_ = true;
  } else if (const int code = api.query_threading(driver->threading_); code != 0) {
    return failed(api, "MPI_Query_thread", code);
  }
  if (driver->only_callers()) {
    const bool serialized = driver->threading_ == Threading::serialized;
    base::log(base::Level::warning,
              "MPI was begun with " + std::string(name_of(driver->threading_)) + ": only calls " +
                  (serialized ? "" : "of the thread that has called MPI_Init ") +
                  "make progress, so callbacks and asynchronous operations wait for " +
                  (serialized ? "them" : "it") + ". Ask MPI_Init_thread for MPI_THREAD_MULTIPLE");
  }
  // The error handlers of a program that has begun MPI itself stay as they are. MPI 4 raises errors
  // of calls without a communicator on MPI_COMM_SELF.
  for (const Comm comm : {api.world(), api.self()}) {
    if (!driver->initialised_) break;
    if (const int code = api.return_errors(comm); code != 0)
      return failed(api, "MPI_Comm_set_errhandler", code);
  }
  driver->largest_tag_ = api.largest_tag();
  return driver;
}

Result<Driver*> Driver::of_process() {
  static std::mutex mutex;  // not one that a fork waits for: MPI_Init may fork
  static Driver* driver = nullptr;
  const std::lock_guard lock(mutex);
  if (driver != nullptr) {
    if (driver->forks_ == base::fork_generation()) return driver;
    return Outcome(Errc::unsupported,
                   "this process was forked from one that has begun MPI, which its children cannot "
                   "use: call init_process_group in a program of the child's own, or take the "
                   "backend 'native' there");
  }
  Result<Api*> api = open_library();
  if (!api) return api.status();
  Result<std::unique_ptr<Driver>> made = make(**api);
  if (!made) return made.status();
  driver = made->release();
  if (driver->initialised_)
    (void)::on_exit([](int status, void* of) { static_cast<Driver*>(of)->finalize(status); },
                    driver);
  return driver;
}

Driver::Driver(Api& api) : api_(api), types_(api) {}

Driver::~Driver() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Driver::finalize(int status) noexcept {
  if (forks_ != base::fork_generation()) return;  // a forked child's exit: MPI is its parent's
  std::unique_lock lock(mutex_, std::defer_lock);
  // exit() in a signal handler may stand above a call that has the lock.
  const auto given_up = steady_clock::now() + kLockTime;
  while (!lock.try_lock()) {
    if (steady_clock::now() > given_up) {
      ending_ = true;
      finalized_.store(true, std::memory_order_relaxed);  // handles that end now must not lock
      return;
    }
    pause_for(kShortPause);
  }
  ending_ = true;
  wake_.notify_all();
  lock.unlock();
  if (thread_.joinable()) {
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();
    else
      thread_.join();
  }
  if (api_.finalized()) return;
  lock.lock();
  const bool notes_work =
      std::none_of(notes_.begin(), notes_.end(), [](const auto& one) { return one->broken(); });
  const bool busy = !idle();
  std::chrono::nanoseconds timeout = kFinalizeTime;
  for (const auto& world : worlds_) {
    timeout = std::max(timeout, world->config().timeout);
    world->leave_all();
  }
  if (has_abandoned_ || busy || !notes_work) {
    // Other ranks may never do their part of the operations that MPI was given.
    const base::NoSignals no_signals;
    try {
      std::thread([status] {
        pause_for(kFinalizeTime);
        ::_exit(status);  // it exits already, and MPI keeps it
      }).detach();
    } catch (const std::exception&) {
      return;
    }
  }
  // MPI_Finalize may neither send what is left nor answer the others: with MPICH on UCX they would
  // wait for each other there for ever. So ranks wait for each other here, as they would there.
  const TimePoint begun = steady_clock::now();
  const TimePoint until = base::deadline_after(begun, timeout);
  for (TimePoint now = begun; now < until; now = steady_clock::now()) {
    if (may_finalize(now < begun + kFinalizeTime)) break;
    progress(true);
    lock.unlock();
    pause_for(kShortPause);
    lock.lock();
  }
  for (const auto& one : notes_) one->close();
  finalized_.store(true, std::memory_order_relaxed);  // relaxed: as in finalized()
  (void)api_.finalize();
}

std::string Driver::forbidden() noexcept {
  if (finalized())
    return "MPI was finalised in this process: destroy all groups on it before MPI_Finalize";
  if (threading_ >= Threading::serialized || api_.is_main_thread()) return {};
  return "MPI was begun with " + std::string(name_of(threading_)) +
         ", so only the thread that has called MPI_Init may call a group on it";
}

MpiWorld& Driver::add(std::unique_ptr<MpiWorld> world) {
  worlds_.push_back(std::move(world));
  return *worlds_.back();
}

Notes* Driver::notes_of(Comm base) const noexcept {
  for (const auto& one : notes_) {
    if (one->base() == base) return one.get();
  }
  return nullptr;
}

Notes& Driver::add_notes(Comm base, Comm comm) {
  notes_.push_back(std::make_unique<Notes>(api_, base, comm));
  return *notes_.back();
}

void Driver::progress(bool look) {
  if (finalized_.load(std::memory_order_relaxed)) return;  // relaxed: written under the lock
  look = ++passes_ % kLookEvery == 0 || look;
  if (look) {
    for (const auto& one : notes_) one->progress();
  }
  for (std::size_t i = 0; i < worlds_.size(); ++i) worlds_[i]->progress(look);
  if (look) delete_ended_worlds();
}

void Driver::delete_ended_worlds() {
  std::erase_if(worlds_, [this](const auto& world) {
    Notes& notes = world->notes();
    if (!world->over()) return false;
    if (notes.base() == api_.world()) return true;  // others use these notes
    if (!notes.all_sent()) return false;
    Comm comm = notes.communicator();
    if (notes.close() && world->freed()) (void)api_.free(comm);
    std::erase_if(notes_, [&](const auto& one) { return one.get() == &notes; });
    return true;
  });
}

bool Driver::may_finalize(bool broken_too) const noexcept {
  return std::all_of(notes_.begin(), notes_.end(),
                     [](const auto& one) { return one->all_sent(); }) &&
         std::all_of(worlds_.begin(), worlds_.end(), [broken_too](const auto& one) {
           return one->notes().broken() || one->all_left(broken_too);
         });
}

bool Driver::idle() const noexcept {
  return std::all_of(worlds_.begin(), worlds_.end(), [](const auto& one) { return one->idle(); });
}

bool Driver::wait(MpiGroup& group, std::uint64_t ticket,
                  std::optional<std::chrono::nanoseconds> limit, Outcome& outcome) {
  struct Caller {
    std::atomic<int>& callers;
    explicit Caller(std::atomic<int>& all) : callers(all) { ++callers; }
    ~Caller() { --callers; }
  } caller(callers_);
  std::unique_lock lock(mutex_);
  std::optional<TimePoint> begun;
  for (unsigned pass = 1;; ++pass) {
    progress(false);
    if (std::optional<Outcome> found = group.operations().outcome(ticket)) {
      outcome = std::move(*found);
      let_go(lock);
      return true;
    }
    const bool look = pass % kLookEvery == 0 || (limit && pass == 1);
    if (!look && pass % kLetGoEvery != 0) continue;
    let_go(lock);
    if (look) {
      const TimePoint now = steady_clock::now();
      if (!begun) begun = now;
      const auto waited = now - *begun;
      if (limit && waited >= *limit) return false;
      if (waited > kLongWait)
        pause_for(kLongPause);
      else if (waited > kSpinTime)
        pause_for(kShortPause);
    }
    // relaxed: it stands alone.
    if (oversubscribed_.load(std::memory_order_relaxed)) (void)::sched_yield();
    lock.lock();
  }
}

void Driver::let_go(std::unique_lock<std::mutex>& lock) noexcept {
  if (due_.empty()) {
    lock.unlock();
    return;
  }
  if (!only_callers() && thread_.joinable()) {
    needed_ = true;
    lock.unlock();
    wake_.notify_one();
    return;
  }
  std::vector<base::Due> due = std::exchange(due_, {});
  lock.unlock();
  for (const base::Due& one : due) one.callback.function(one.callback.context, one.outcome);
}

void Driver::need_thread() noexcept {
  if (only_callers()) return;
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    needed_ = true;
    if (!thread_.joinable()) {
      const base::NoSignals no_signals;
      try {
        thread_ = std::thread([this] { run(); });
      } catch (const std::exception&) {
        return;  // callers drive
      }
    }
  }
  wake_.notify_one();
}

void Driver::run() noexcept {
  std::unique_lock lock(mutex_);
  microseconds pause = kShortPause;
  while (!ending_) {
    if (!due_.empty()) {
      std::vector<base::Due> due = std::exchange(due_, {});
      lock.unlock();
      for (const base::Due& one : due) one.callback.function(one.callback.context, one.outcome);
      lock.lock();
      pause = kShortPause;
      continue;
    }
    if (!needed_ || idle()) {
      needed_ = false;
      while (!needed_ && !ending_ && due_.empty()) base::wait(wake_, lock);
      pause = kShortPause;
      continue;
    }
    if (callers_.load() == 0) progress(true);
    if (!due_.empty()) continue;
    wake_.wait_for(lock, pause);
    pause = std::min<microseconds>(pause * 2, kLongPause);
  }
}

}  // namespace tutti::mpi
