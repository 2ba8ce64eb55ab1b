#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"
#include "backend/mpi/group.hpp"
#include "backend/mpi/notes.hpp"
#include "backend/mpi/value_types.hpp"
#include "base/due.hpp"
#include "base/forks.hpp"

namespace tutti::mpi {

class MpiWorld;

/// Serialises all calls of MPI by this process, and makes MPI progress: in callers that wait, and
/// in a progress thread for operations that nobody waits for. There is no such thread if the
/// program has begun MPI for less than MPI_THREAD_MULTIPLE, because it may call MPI itself at any
/// time.
class Driver {
 public:
  /// Calls MPI_Init_thread if nobody has.
  [[nodiscard]] static Result<std::unique_ptr<Driver>> make(Api& api);
  /// The driver of this process; never destroyed. If it has called MPI_Init, the end of the process
  /// finalises MPI.
  [[nodiscard]] static Result<Driver*> of_process();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] Api& api() noexcept { return api_; }
  [[nodiscard]] ValueTypes& types() noexcept { return types_; }
  [[nodiscard]] Threading threading() const noexcept { return threading_; }
  /// MPI_TAG_UB.
  [[nodiscard]] int largest_tag() const noexcept { return largest_tag_; }
  /// Why this thread must not call MPI; empty: it may.
  [[nodiscard]] std::string forbidden() noexcept;
  /// MPI was finalised, by us or by the program: nothing of it may be called any more.
  [[nodiscard]] bool finalized() noexcept {
    // relaxed: a thread that sees it late finds under the lock that all groups have failed.
    return finalized_.load(std::memory_order_relaxed) || (!initialised_ && api_.finalized());
  }

  /// Runs `action` as the only one that calls MPI; then the callbacks that are due.
  template <class Action>
  auto with(Action&& action) {
    std::unique_lock lock(mutex_);
    struct Unlock {
      Driver& driver;
      std::unique_lock<std::mutex>& lock;
      ~Unlock() { driver.let_go(lock); }
    } unlock{*this, lock};
    return action();
  }
  /// Makes progress until the operation is done (true) or `limit` has passed (false).
  [[nodiscard]] bool wait(MpiGroup& group, std::uint64_t ticket,
                          std::optional<std::chrono::nanoseconds> limit, Outcome& outcome);
  /// Wakes the progress thread for an operation that nobody waits for.
  void need_thread() noexcept;

  // Under the lock.
  /// The notes between the ranks of `base`; `comm`, a duplicate, is taken if there are none yet.
  [[nodiscard]] Notes* notes_of(Comm base) const noexcept;
  Notes& add_notes(Comm base, Comm comm);
  MpiWorld& add(std::unique_ptr<MpiWorld> world);
  /// Callbacks are called when the lock is let go.
  [[nodiscard]] std::vector<base::Due>& due() noexcept { return due_; }
  /// One pass; every 64th, or where `look` says so, at the clock and for notes, too.
  void progress(bool look);
  /// MPI was left with requests that nobody waits for, so MPI_Finalize may not return.
  void abandon_requests() noexcept { has_abandoned_ = true; }
  /// More ranks share this host than it has CPUs: a caller that waits yields its CPU.
  void set_oversubscribed(bool oversubscribed) noexcept {
    oversubscribed_.store(oversubscribed, std::memory_order_relaxed);  // relaxed: it stands alone
  }

 private:
  explicit Driver(Api& api);
  void let_go(std::unique_lock<std::mutex>& lock) noexcept;
  [[nodiscard]] bool only_callers() const noexcept {
    return threading_ < (initialised_ ? Threading::serialized : Threading::multiple);
  }
  void finalize(int status) noexcept;
  void run() noexcept;
  [[nodiscard]] bool idle() const noexcept;
  /// All notes were sent, and the other ranks have left all groups, too: `broken_too`, or only
  /// those that are whole.
  [[nodiscard]] bool may_finalize(bool broken_too) const noexcept;
  void delete_ended_worlds();

  Api& api_;
  ValueTypes types_;
  Threading threading_ = Threading::single;
  int largest_tag_ = 0;
  bool initialised_ = false;            ///< by us
  std::atomic<bool> finalized_{false};  ///< by us
  const std::uint64_t forks_ = base::fork_generation();
  std::mutex mutex_;
  std::vector<std::unique_ptr<Notes>> notes_;
  std::vector<std::unique_ptr<MpiWorld>> worlds_;
  std::vector<base::Due> due_;
  unsigned passes_ = 0;
  bool has_abandoned_ = false;
  std::atomic<bool> oversubscribed_{false};
  std::atomic<int> callers_{0};  ///< that wait, and drive
  std::condition_variable wake_;
  bool needed_ = false;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace tutti::mpi
