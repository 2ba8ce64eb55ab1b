#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "group.hpp"
#include "memory.hpp"
#include "timeout.hpp"

namespace tutti::python {

/// A running operation with everything that it needs. Dropping it does not wait. Any thread may use
/// it.
///
/// Locking: a thread with the GIL only tries to lock `mutex_`, and releases the GIL to wait for it:
///          a thread that waits for the operation holds the mutex, and may need the GIL for the
///          function of a UserOp.
class RunningWork {
 public:
  RunningWork(Work work, Memory memory, Group group);
  RunningWork(const RunningWork&) = delete;
  RunningWork& operator=(const RunningWork&) = delete;
  ~RunningWork();

  bool wait(nanobind::handle timeout);
  [[nodiscard]] bool is_completed();
  /// Ok while not done.
  [[nodiscard]] Outcome outcome();
  /// The error as a Python object; None while not done, and after success.
  [[nodiscard]] nanobind::object exception();
  [[nodiscard]] int source_rank();
  /// Of a recv that is done: the tag of its message. Else -1.
  [[nodiscard]] int tag();
  /// See Work::cancel. Then `wait` raises InvalidArgument.
  bool cancel();
  /// The places of those of the Works that are done and were not waited for. Waits until there is
  /// one, at most `timeout`; empty: none is left, or that has passed.
  [[nodiscard]] static std::vector<std::size_t> first_done(nanobind::sequence works,
                                                           nanobind::handle timeout);
  [[nodiscard]] nanobind::list result() const;
  [[nodiscard]] const Group& group() const noexcept { return group_; }
  [[nodiscard]] Memory& memory() noexcept { return memory_; }
  /// `self`: the Python object of this Work, which lives until the callback has been called.
  void add_done_callback(nanobind::object self, nanobind::object callback);

 private:
  class Done;
  friend void end_callbacks() noexcept;
  enum class Stage : int {
    running,
    settled,    ///< the operation is done: outcome_ and received_ are set
    finishing,  ///< a thread completes the results
    done,
  };
  /// True if the operation is done; waits at most `limit`. Without the GIL, with mutex_.
  bool settle(std::chrono::nanoseconds limit);
  /// True if the operation's own op calls this, in the thread that settles the Work or in another
  /// one.
  [[nodiscard]] bool settles_here() const noexcept {
    return settling_.load() == std::this_thread::get_id() || memory_.called_here();
  }
  void refuse_own_op(const char* method) const;
  /// Completes the results after the Work is settled. With the GIL.
  void finish();
  /// Polls once without waiting. With the GIL.
  bool look();
  void call_back(nanobind::handle self) noexcept;

  Group group_;
  Memory memory_;
  Work work_;
  std::timed_mutex mutex_;  ///< guards work_ and callbacks_
  std::vector<nanobind::object> callbacks_;
  Outcome outcome_;
  Received received_;
  std::atomic<bool> told_{false};  ///< `wait` has returned, or raised
  bool registered_ = false;        ///< a Done is registered
  std::atomic<Stage> stage_{Stage::running};
  std::atomic<std::thread::id> settling_;  ///< the thread in `settle`
};

/// At exit, with the GIL: calls the callbacks of done operations; no other callback is called
/// afterwards.
void end_callbacks() noexcept;

void bind_work(nanobind::module_& module);

}  // namespace tutti::python
