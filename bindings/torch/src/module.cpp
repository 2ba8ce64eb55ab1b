#include <string>

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "interpreter_end.hpp"
#include "process_group_tutti.hpp"
#include "rendezvous.hpp"

namespace {

using tutti::torch_plugin::InterpreterUse;
using tutti::torch_plugin::ProcessGroupTutti;
using Options = ProcessGroupTutti::Options;

/// Torch calls it for each group, but for the name of tutti's backend. Options of other backends
/// are theirs: torch hands the same object to all backends of a group.
c10::intrusive_ptr<ProcessGroupTutti> make_backend(const c10d::DistributedBackendOptions& given,
                                                   const py::object& pg_options,
                                                   const std::string& backend) {
  auto options = py::isinstance<Options>(pg_options)
                     ? c10::make_intrusive<Options>(*pg_options.cast<c10::intrusive_ptr<Options>>())
                     : c10::make_intrusive<Options>();
  options->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(given.timeout);
  options->group_name = given.group_id;
  const py::gil_scoped_release unlocked;
  return c10::make_intrusive<ProcessGroupTutti>(tutti::torch_plugin::meet(given, backend),
                                                std::move(options));
}

}  // namespace

PYBIND11_MODULE(TUTTI_TORCH_MODULE, module) {
  const py::module_ c10d = py::module_::import("torch._C._distributed_c10d");
  const py::object backend = c10d.attr("Backend");
  auto group = py::class_<ProcessGroupTutti, c10::intrusive_ptr<ProcessGroupTutti>>(
      module, "ProcessGroupTutti", backend);
  py::class_<Options, c10::intrusive_ptr<Options>>(group, "Options", backend.attr("Options"))
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
      .def("__copy__", [](const Options& self) { return c10::make_intrusive<Options>(self); })
      .def("__deepcopy__", [](const Options& self, const py::dict& /*memo*/) {
        return c10::make_intrusive<Options>(self);
      });
  group.def_property_readonly("options", &ProcessGroupTutti::getBackendOptions);
  // Torch calls it for a group whose device is bound, on ranks that a new group leaves out. Groups
  // are made by their members here.
  group.def("perform_nocolor_split",
            [](ProcessGroupTutti& /*self*/, const py::object& /*device*/) {});
  py::module_::import("atexit").attr("register")(py::cpp_function(&InterpreterUse::end));
  module.def("make_backend", &make_backend, py::arg("options"), py::arg("pg_options"),
             py::arg("backend"));
}
