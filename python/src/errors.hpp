#pragma once

#include <nanobind/nanobind.h>

#include <tutti/error.hpp>

namespace tutti::python {

/// The Python exception (tutti/errors.py) that belongs to a failure. Needs the GIL.
[[nodiscard]] nanobind::object exception_of(const Status& status);
/// From now on tutti's C++ exceptions reach Python as these.
void bind_errors(nanobind::module_& module);

}  // namespace tutti::python
