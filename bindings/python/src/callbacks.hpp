#pragma once

#include <memory>

namespace tutti::python {

/// Something to do in Python, asked for by a thread that must not take the GIL.
class Errand {
 public:
  Errand() = default;
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;
  virtual ~Errand() = default;
  /// With the GIL; must not throw.
  virtual void run() noexcept = 0;

 private:
  friend class Callbacks;
  Errand* next_ = nullptr;
};

/// The one thread of this process that calls back into Python.
///
/// The progress thread never takes the GIL, or it would wait for a thread that computes, or for one
/// that waits for it. So it leaves an errand here, which costs it no lock.
class Callbacks {
 public:
  /// From now on errands are run; the first call starts the thread, also in a forked child. Needs
  /// the GIL. Throws std::system_error if there is no thread to be had.
  static void start();
  /// Any thread, with or without the GIL. Dropped (and leaked) where nobody will run it any more:
  /// in a forked child that has not started its own thread, or after `stop`.
  static void leave(std::unique_ptr<Errand> errand) noexcept;
  /// Runs what has been left and ends the thread. At exit, with the GIL.
  static void stop() noexcept;
};

}  // namespace tutti::python
