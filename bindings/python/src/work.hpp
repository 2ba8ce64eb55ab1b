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

/// An operation under way, with what it needs: dropping it waits for nothing. Any thread may use
/// it.
///
/// Locking: a thread that has the GIL only tries to take `mutex_`, and waits for it without the
///          GIL, because a thread that waits for the operation holds it, and may take the GIL for
///          the function of a UserOp.
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
  /// Its error for Python; None while not done, and if it ended well.
  [[nodiscard]] nanobind::object exception();
  [[nodiscard]] int source_rank();
  [[nodiscard]] nanobind::list result() const;
  [[nodiscard]] const Group& group() const noexcept { return group_; }
  [[nodiscard]] Memory& memory() noexcept { return memory_; }
  /// `self` is the Python object of this one; it lives until the callback has been called.
  void add_done_callback(nanobind::object self, nanobind::object callback);

 private:
  class Done;
  friend void end_callbacks() noexcept;
  enum class Stage : int {
    running,
    settled,    ///< the operation is done: outcome_ and source_ stand
    finishing,  ///< somebody completes the results
    done,
  };
  /// Is it done? Waits at most `limit`. Without the GIL, with mutex_.
  bool settle(std::chrono::nanoseconds limit);
  /// Is this called by its own op? That may run where the Work is settled, or elsewhere.
  [[nodiscard]] bool settles_here() const noexcept {
    return settling_.load() == std::this_thread::get_id() || memory_.called_here();
  }
  void refuse_own_op(const char* method) const;
  /// After it is settled: the results are whole when this returns. With the GIL.
  void finish();
  /// One look, without waiting. With the GIL.
  bool look();
  void call_back(nanobind::handle self) noexcept;

  Group group_;
  Memory memory_;
  Work work_;
  std::timed_mutex mutex_;  ///< guards work_ and callbacks_
  std::vector<nanobind::object> callbacks_;
  Outcome outcome_;
  int source_ = -1;
  bool registered_ = false;  ///< a Done is on its way
  std::atomic<Stage> stage_{Stage::running};
  std::atomic<std::thread::id> settling_;  ///< the thread in `settle`
};

/// At exit, with the GIL: callbacks of operations that are done are called; nobody is called after.
void end_callbacks() noexcept;

void bind_work(nanobind::module_& module);

}  // namespace tutti::python
