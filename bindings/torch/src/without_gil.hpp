#pragma once

#include <torch/csrc/python_headers.h>

namespace tutti::torch_plugin {

/// Lets go of the GIL if this thread has it. The end of a world waits for callbacks on the progress
/// thread, and a callback may want the GIL.
class WithoutGil {
 public:
  WithoutGil() noexcept
      : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {
  }
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace tutti::torch_plugin
