#pragma once

#include <nanobind/nanobind.h>

#include <limits>

#include <tutti/error.hpp>

namespace tutti::python {

/// The number of a tag of a message, as a program gave it. TypeError if it is no whole number,
/// InvalidArgument if no tag is so large. Needs the GIL.
[[nodiscard]] inline int tag_of(nanobind::handle tag) {
  if (PyIndex_Check(tag.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "a tag is a whole number, not %R", tag.ptr());
    throw nanobind::python_error();
  }
  const auto number = nanobind::steal(PyNumber_Index(tag.ptr()));
  if (!number.is_valid()) throw nanobind::python_error();
  int beyond = 0;
  const long value = PyLong_AsLongAndOverflow(number.ptr(), &beyond);
  using Limits = std::numeric_limits<int>;
  if (beyond != 0 || value < Limits::min() || value > Limits::max())
    raise(Status(Errc::invalid_argument, "a tag is at least 0 and at most 2147483647"));
  return static_cast<int>(value);
}

}  // namespace tutti::python
