#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace tutti::python {

/// Runs what may wait for the GIL. Before Python 3.14 a thread that comes for it once the
/// interpreter has begun to end is itself ended, by pthread_exit, which unwinds its stack: that
/// would run destructors of Python's objects without the GIL, and end the process where it meets a
/// function that does not throw. Such a thread stands still instead, as it does from 3.14 on.
template <class Action>
auto or_stand_still(const Action& action) {
  try {
    return action();
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // the thread is being ended: that has no type
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

/// Calls what is Python's, which lets others have the GIL, too.
template <class... Arguments>
nanobind::object call_python(nanobind::handle function, const Arguments&... arguments) {
  // Not by nanobind's call, which holds Python's objects in C++ meanwhile.
  PyObject* const result = or_stand_still(
      [&] { return PyObject_CallFunctionObjArgs(function.ptr(), arguments.ptr()..., nullptr); });
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
}

/// The state that a thread has let go of by WithoutGil: null while it has the GIL, and on threads
/// that are not Python's.
inline thread_local PyThreadState* released = nullptr;

/// Without the GIL until its end.
class WithoutGil {
 public:
  WithoutGil() noexcept : state_(PyEval_SaveThread()) { released = state_; }
  ~WithoutGil() {
    or_stand_still([this] { PyEval_RestoreThread(state_); });
    released = nullptr;
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// With the GIL until its end, on any thread. An interpreter that has ended ends no thread that
/// comes for the GIL by PyGILState_Ensure: the thread reads what is gone, and the process with it.
/// So a thread of Python's takes its own state back, which is always safe, and others look first
/// whether there is an interpreter.
class WithGil {
 public:
  WithGil() : taken_(std::exchange(released, nullptr)) {
    or_stand_still([this] {
      if (taken_ != nullptr) return PyEval_RestoreThread(taken_);
      if (Py_IsInitialized() == 0) throw Ended{};
      ensured_ = PyGILState_Ensure();
    });
  }
  ~WithGil() {
    if (taken_ == nullptr)
      PyGILState_Release(ensured_);
    else
      released = PyEval_SaveThread();
  }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  struct Ended {};

  PyThreadState* taken_;
  PyGILState_STATE ensured_{};
};

}  // namespace tutti::python
