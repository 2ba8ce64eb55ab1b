#include <nanobind/nanobind.h>

#include "errors.hpp"
#include "group.hpp"
#include "kept.hpp"
#include "work.hpp"

NB_MODULE(_tutti, module) {
  tutti::python::bind_errors(module);
  tutti::python::bind_work(module);
  tutti::python::bind_group(module);
  // At exit what is done goes while there is still an interpreter; the rest belongs to the process.
  nanobind::module_::import_("atexit").attr("register")(
      nanobind::cpp_function([] { tutti::python::Kept::release_done(); }));
}
