#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "process_group_tutti.hpp"

PYBIND11_MODULE(_tutti_torch, module) {
  module.def(
      "make_backend",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
         std::chrono::milliseconds timeout) {
        return c10::intrusive_ptr<c10d::Backend>(
            c10::make_intrusive<tutti::torch_plugin::ProcessGroupTutti>(store, rank, size,
                                                                        timeout));
      },
      py::call_guard<py::gil_scoped_release>());
}
