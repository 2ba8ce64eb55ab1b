#pragma once

#include <nanobind/nanobind.h>

#include <tutti/error.hpp>

namespace tutti::python {

/// The Python exception (tutti/errors.py) that belongs to a failure. Needs the GIL.
[[nodiscard]] nanobind::object exception_of(const Outcome& status);
/// The same as an exception of another class of tutti/errors.py, which is derived from that one.
[[nodiscard]] nanobind::object exception_of(const Outcome& status, const char* type);
/// Raises an exception. Needs the GIL.
[[noreturn]] void raise_exception(const nanobind::object& problem);
/// Raises that of another class. Needs the GIL.
[[noreturn]] void raise_as(const char* type, const Outcome& status);
/// From now on tutti's C++ exceptions reach Python as these.
void bind_errors(nanobind::module_& module);

}  // namespace tutti::python
