#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace tutti::python {

/// Runs a function that may wait for the GIL. Before Python 3.14 a thread that asks for the GIL
/// while the interpreter ends is ended by pthread_exit. That unwinds the stack: destructors of
/// Python objects would run without the GIL, and a noexcept function would end the process. Here
/// the thread blocks for ever instead, as from 3.14 on.
template <class Action>
auto or_stand_still(const Action& action) {
  try {
    return action();
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // pthread_exit's unwinding, which has no type
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

/// Calls a Python object. Other threads may have the GIL meanwhile.
template <class... Arguments>
nanobind::object call_python(nanobind::handle function, const Arguments&... arguments) {
  // Not nanobind's call, which holds Python objects in C++ during the call.
  PyObject* const result = or_stand_still(
      [&] { return PyObject_CallFunctionObjArgs(function.ptr(), arguments.ptr()..., nullptr); });
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
}

/// The thread state that WithoutGil has released. Null while the thread has the GIL, and on threads
/// that are not Python's.
inline thread_local PyThreadState* released = nullptr;

/// Releases the GIL for its lifetime.
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

/// Holds the GIL for its lifetime, on any thread. PyGILState_Ensure after the end of the
/// interpreter reads freed memory and crashes. So a Python thread takes its own state back, which
/// is always safe, and other threads first check that there is an interpreter.
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
