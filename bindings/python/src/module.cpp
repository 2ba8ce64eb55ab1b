#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include <tutti/log.hpp>
#include <tutti/version.hpp>

#include "arguments.hpp"
#include "backends.hpp"
#include "buffer.hpp"
#include "config.hpp"
#include "errors.hpp"
#include "group.hpp"
#include "init.hpp"
#include "kept.hpp"
#include "sent_message.hpp"
#include "store.hpp"
#include "work.hpp"

namespace nb = nanobind;
using namespace nb::literals;
namespace python = tutti::python;

// The function below has the name that Python looks for, and calls the one of NB_MODULE.
#define PyInit__tutti inner_init
NB_MODULE(_tutti, module) {
  if (tutti::version() != tutti::kVersion)
    throw std::runtime_error("tutti " + std::string(tutti::kVersion) +
                             " has loaded the library of tutti " + std::string(tutti::version()) +
                             "; look at LD_LIBRARY_PATH");
  // An operation that runs at exit keeps its arrays, which is no leak to report. It is reported
  // only with -X dev.
  nb::set_leak_warnings(nb::cast<bool>(nb::module_::import_("sys").attr("flags").attr("dev_mode")));
  python::bind_errors(module);
  python::bind_config(module);
  python::bind_group(module);
  python::bind_work(module);
  python::bind_store(module);
  python::bind_stores(module);
  python::bind_init(module);
  python::bind_backends(module);
  module.attr("__version__") = std::string(tutti::version());
  tutti::python::define(
      module, "dtype_name",
      [](nb::handle array) {
        const python::Buffer buffer(array, "dtype_name", "array", python::Use::read);
        return std::string(to_string(buffer.view().dtype()));
      },
      "array"_a, "The dtype that tutti sees in an array: \"float32\".");
  tutti::python::define(
      module, "count",
      [](nb::handle array) {
        return python::Buffer(array, "count", "array", python::Use::read).view().count();
      },
      "array"_a, "Number of elements that tutti sees.");
  // At exit, done operations are freed while the interpreter still exists; the rest is leaked.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    python::SentMessage::tell_at_exit();
    // Nor to standard error: what ends now is told by who ends.
    tutti::set_log_sink([](tutti::LogLevel, std::string_view) {});
    python::end_callbacks();
    python::end_backends();
    python::Kept::release_done();
  }));
}
#undef PyInit__tutti

extern "C" NB_EXPORT PyObject* PyInit__tutti();
// Threads, the world and callbacks belong to the process, so the first interpreter to end would end
// them for all. Before Python 3.12 only this check refuses a second interpreter, and it must come
// before nanobind replaces its own state.
extern "C" PyObject* PyInit__tutti() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "tutti cannot be used in a sub-interpreter; use another process");
    return nullptr;
  }
  return inner_init();
}
