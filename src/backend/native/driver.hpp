#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <tutti/backend/collective.hpp>

#include "backend/native/cpu_contention.hpp"
#include "backend/native/driver_lock.hpp"
#include "engine/engine.hpp"

namespace tutti::transport::shm {
class Host;
}

namespace tutti::native {

/// Decides which thread runs the engine, and how a caller waits; see docs/design/threads.md.
class Driver {
 public:
  struct Options {
    int cpus = 1;                ///< of this host
    int ranks_on_host = 1;       ///< ranks that share these CPUs
    bool sleepers_fence = true;  ///< membarrier works on all ranks of the host
    bool remote = false;         ///< TCP peers are possible
    std::vector<int> processes;  ///< of these ranks; empty: we cannot see all of them
  };
  Driver(engine::Engine& engine, transport::shm::Host& host, Options options);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// `waits`: the caller waits at once, so nobody else is to move a large operation.
  std::uint64_t submit(engine::Group& group, const Collective& call, bool waits) noexcept;
  /// Runs a send or recv to its end. A recv: which message it was. Absent: `outcome` is its
  /// failure.
  [[nodiscard]] std::optional<Received> run(engine::Group& group, const Collective& call,
                                            Outcome& outcome) noexcept;
  /// The outcome if the operation is done. Else it has moved what can move, and has given way to
  /// other ranks if those have too few CPUs: a caller that polls in a loop may keep theirs.
  [[nodiscard]] std::optional<Outcome> poll(engine::Group& group, std::uint64_t ticket) noexcept;
  void give_way() const noexcept;
  /// Drives until the operation is done (true) or `limit` has passed (false). `released`: if it is
  /// not null and the operation has succeeded, gets what `release` returns for it.
  bool wait(engine::Group& group, std::uint64_t ticket,
            std::optional<std::chrono::nanoseconds> limit, Outcome& outcome,
            Received* released) noexcept;
  /// As `wait` for the first of them that is done; adds the places of those that are done to
  /// `ended`, which has room for all. False, at once: a signal handler has interrupted this thread
  /// in the engine.
  bool wait_any(std::span<const std::pair<engine::Group*, std::uint64_t>> ones,
                std::optional<std::chrono::nanoseconds> limit,
                std::vector<std::size_t>& ended) noexcept;
  /// Calls back when done. The progress thread runs the operation, as no caller may wait for it.
  void on_done(engine::Group& group, std::uint64_t ticket, Callback callback) noexcept;
  /// See Engine::release.
  Received release(engine::Group& group, std::uint64_t ticket) noexcept;
  /// Runs `action` on the engine as the driver.
  template <class Action>
  auto with(Action&& action) noexcept(noexcept(action())) {
    driver_lock_.lock();
    struct Unlock {
      Driver& driver;
      ~Unlock() { driver.let_go(); }
    } unlock{*this};
    return action();
  }

  /// Call inside `with`: checks for ranks of this host that have died, and for deadlines, unless
  /// that was done just now.
  void look_around_if_due() noexcept;

  /// As `with`. False: `action` was not run, because this thread holds the lock already and was
  /// interrupted by a signal handler.
  template <class Action>
  [[nodiscard]] bool with_unless_ours(Action&& action) noexcept {
    if (!driver_lock_.lock_unless_ours()) return false;
    action();
    let_go();
    return true;
  }
  /// As `with`, but tries only until the deadline, and at least once. False: `action` was not run.
  template <class Action>
  [[nodiscard]] bool with_until(engine::TimePoint deadline, Action&& action) noexcept {
    if (!driver_lock_.lock_until(deadline)) return false;
    action();
    let_go();
    return true;
  }

  // For the progress thread.
  /// Makes a pass; false if a caller drives. Adds the callbacks that are due.
  bool drive(std::vector<engine::Finished>& due) noexcept;
  struct Sleep {
    std::chrono::nanoseconds most;
    bool listens;  ///< something but a kick may end it: a socket, or our eventfd
  };
  /// Call before the thread sleeps. While something urgent is under way, or something that the
  /// thread has moved, peers may wake our eventfd. Else the thread looks every 20 ms, as long as
  /// there are operations and for a second after.
  [[nodiscard]] Sleep prepare_sleep() noexcept;
  [[nodiscard]] std::vector<int> wait_fds() const;
  /// A caller is in `wait`.
  [[nodiscard]] bool has_callers() const noexcept {
    return callers_.load(std::memory_order_relaxed) > 0;
  }
  /// All callers in `wait` sleep.
  [[nodiscard]] bool all_parked() const noexcept {
    return parked_.load(std::memory_order_relaxed) >= callers_.load(std::memory_order_relaxed);
  }
  /// Grows with every wait, so that the progress thread sees whether callers have come.
  [[nodiscard]] std::uint64_t calls() const noexcept {
    return calls_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] engine::Engine& engine() noexcept { return engine_; }

 private:
  class Pause;
  struct Waiting;
  /// Counts the end of a wait. `came`: its caller is a new one to the progress thread, and not one
  /// that waits on in slices. Under the driver lock.
  void wait_ended(bool came) noexcept {
    if (spin_penalty_ > 0) --spin_penalty_;
    contention_.wait_ended();
    // relaxed: the driver lock orders writers; readers take it as a hint.
    if (came) calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool take_short(engine::Group& group, const Collective& call,
                                std::uint64_t record) noexcept;
  /// As `wait`, under the driver lock, which it gives back.
  bool wait_and_unlock(engine::Group& group, std::uint64_t ticket,
                       std::optional<std::chrono::nanoseconds> limit, Outcome& outcome,
                       Received* released) noexcept;
  [[nodiscard]] bool look(Pause& pause, Waiting& waiting) noexcept;
  [[nodiscard]] bool wants_thread() const noexcept;
  /// `comes_again`: the caller waits in slices, so it does not leave its operation to the progress
  /// thread, which looks now and then.
  void let_go(bool comes_again = false) noexcept;
  /// True: there was something to move, so it did not sleep.
  bool park(std::chrono::nanoseconds most, bool first) noexcept;
  void wake_sleepers() noexcept;
  void look_around() noexcept;
  /// Wakes the other ranks of this host that sleep, so that they look around.
  void wake_others() noexcept;
  /// Makes the thread, under the driver lock. The caller kicks it once it has let that go.
  void need_thread() noexcept;

  engine::Engine& engine_;
  transport::shm::Host& host_;
  Options options_;
  /// How many times as long this rank sleeps between two looks where ranks are many for the CPUs.
  int rarely_ = 1;
  DriverLock driver_lock_;
  std::atomic<int> callers_{0};  ///< written under the driver lock only
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<int> parked_{0};
  // Under the driver lock:
  bool has_thread_ = false;
  /// The progress thread looks every 20 ms, or has been woken. It may clear this without the lock.
  std::atomic<bool> looks_{false};
  std::uint64_t calls_missed_ = ~std::uint64_t{0};  ///< when the thread last found the lock taken
  bool moved_ = false;                              ///< something, in the last turn of the thread
  std::uint64_t submits_ = 0;
  std::uint64_t submits_seen_ = 0;   ///< when a caller last went to sleep
  engine::TimePoint quiet_since_{};  ///< a caller that went to sleep has then seen a new one
  std::uint64_t calls_seen_ = 0;     ///< at the last prepare_sleep
  engine::TimePoint last_called_{};  ///< when prepare_sleep has seen another wait
  engine::TimePoint last_busy_{};
  engine::TimePoint last_try_{};  ///< to make the thread
  std::uint32_t sleeps_ = 0;      ///< number of the last sleep (shm::Park); driver lock
  bool starved_ = false;          ///< no memory to take what has finished; driver lock
  int spin_penalty_ = 0;      ///< waits that are to yield although each rank has a CPU; driver lock
  CpuContention contention_;  ///< driver lock
  engine::TimePoint last_look_{};  ///< driver lock
  /// The last wait that ended by its limit; driver lock. A caller that waits in slices, as Python
  /// does, must not spin at the start of each, and sleeps as long as one that waits at once.
  struct InVain {
    const engine::Group* group = nullptr;
    std::uint64_t ticket = 0;
    engine::TimePoint since;  ///< the first such wait for this operation began
  };
  InVain in_vain_;
};

}  // namespace tutti::native
