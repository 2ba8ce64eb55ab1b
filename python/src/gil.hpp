#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <thread>

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

/// Without the GIL until its end.
class WithoutGil {
 public:
  WithoutGil() noexcept : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    or_stand_still([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// With the GIL until its end, on any thread.
class WithGil {
 public:
  WithGil() : state_(or_stand_still([] { return PyGILState_Ensure(); })) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace tutti::python
