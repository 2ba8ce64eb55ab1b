#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "group.hpp"
#include "memory.hpp"
#include "timeout.hpp"

namespace tutti::python {

/// An operation under way, with what it needs: dropping it waits for nothing. Any thread may use
/// it.
///
/// Locking: `mutex_` is taken without the GIL, and the GIL never while it is held, since a thread
/// that waits holds it without the GIL.
class RunningWork {
 public:
  RunningWork(Work work, Memory memory, Group group);
  RunningWork(const RunningWork&) = delete;
  RunningWork& operator=(const RunningWork&) = delete;
  ~RunningWork();

  bool wait(nanobind::handle timeout);
  [[nodiscard]] bool is_completed();
  /// Ok while not done.
  [[nodiscard]] Status outcome();
  [[nodiscard]] int source_rank();
  [[nodiscard]] nanobind::list result() const;
  [[nodiscard]] const Group& group() const noexcept { return group_; }
  /// `self` is the Python object of this one; it lives until the callback has been called.
  void add_done_callback(nanobind::object self, nanobind::object callback);

 private:
  class Done;
  enum class Stage : int {
    running,
    settled,    ///< the operation is done: outcome_ and source_ stand
    finishing,  ///< somebody completes the results
    done,
  };
  /// Is it done? Waits at most `limit`. Without the GIL, with mutex_.
  bool settle(std::chrono::nanoseconds limit);
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
  Status outcome_;
  int source_ = -1;
  bool registered_ = false;  ///< a Done is on its way
  std::atomic<Stage> stage_{Stage::running};
};

void bind_work(nanobind::module_& module);

}  // namespace tutti::python
