#pragma once

// The few functions of Python that are needed here. Weak, because the library does not link with
// Python: jaxlib calls it in a process of Python, which has them.
extern "C" {
[[gnu::weak]] int Py_IsInitialized();
[[gnu::weak]] int PyGILState_Check();
[[gnu::weak]] void* PyEval_SaveThread();
[[gnu::weak]] void PyEval_RestoreThread(void* state);
}

namespace tutti::jax {

/// Lets go of the GIL if this thread has it. Making and ending a world wait for the progress
/// thread, which may want the GIL for a log sink of Python.
class WithoutGil {
 public:
  WithoutGil() noexcept
      : state_(PyEval_SaveThread != nullptr && Py_IsInitialized() != 0 && PyGILState_Check() != 0
                   ? PyEval_SaveThread()
                   : nullptr) {}
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* state_;
};

}  // namespace tutti::jax
