#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "owned.hpp"

namespace tutti::python {

/// InitOptions::backend_options for a backend that was registered in Python: arguments and result
/// of one call of init_process_group.
struct ForBackend {
  Owned options;              ///< the options of init's caller
  std::exception_ptr raised;  ///< the exception of the function that makes the group
};

/// The engine that a name means: case does not matter, and names with which programs of other
/// libraries ask for ours are known.
[[nodiscard]] std::string engine_name(std::string name);

/// Drops the functions of backends at exit. Needs the GIL.
void end_backends();

/// register_backend, is_available, available_backends, engine_name.
void bind_backends(nanobind::module_& module);

}  // namespace tutti::python
