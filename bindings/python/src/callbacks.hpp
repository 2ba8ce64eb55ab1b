#pragma once

#include <memory>

namespace tutti::python {

/// A task in Python for a thread that must not take the GIL.
class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;
  /// Runs the task with the GIL; must not throw.
  virtual void run() noexcept = 0;

 private:
  friend class Callbacks;
  Task* next_ = nullptr;
};

/// The single thread of this process that runs callbacks in Python.
///
/// The progress thread never takes the GIL: it would wait for a thread that computes, or that waits
/// for the progress thread. It leaves a task here instead, without a lock.
class Callbacks {
 public:
  /// Starts the thread if it does not run, also in a forked child. Needs the GIL. Throws
  /// std::system_error if no thread can be made.
  static void start();
  /// Queues a task, from any thread, with or without the GIL. The task is leaked if no thread will
  /// run it: in a forked child that has not called `start`, or after `stop`.
  static void leave(std::unique_ptr<Task> task) noexcept;
  /// Runs the remaining tasks and ends the thread. At exit, with the GIL.
  static void stop() noexcept;
};

}  // namespace tutti::python
