#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "owned.hpp"

namespace tutti::python {

/// The arguments of one call of init_process_group for a backend that was registered in Python, and
/// its result (InitOptions::backend_options).
struct ForBackend {
  Owned options;              ///< what the caller of init gave
  std::exception_ptr raised;  ///< by the function that makes the group
};

/// The engine that a name means: in lower case, and those by which other libraries' programs ask
/// for ours count, too.
[[nodiscard]] std::string engine_name(std::string name);

/// Lets go of the functions of backends, at exit. Needs the GIL.
void end_backends();

/// register_backend, is_available, available_backends, engine_name.
void bind_backends(nanobind::module_& module);

}  // namespace tutti::python
