#include "timeout.hpp"

#include <nanobind/stl/chrono.h>

#include <cmath>

namespace nb = nanobind;

namespace tutti::python {

Timeout timeout_of(nb::handle value) {
  using Seconds = std::chrono::duration<double>;
  if (value.is_none()) return std::nullopt;
  double seconds = 0;
  const bool number = PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr());
  if (number && !PyBool_Check(value.ptr())) {
    seconds = PyFloat_AsDouble(value.ptr());
    if (seconds == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  } else if (std::chrono::nanoseconds exact{}; nb::try_cast(value, exact, false)) {
    seconds = Seconds(exact).count();
  } else {
    PyErr_Format(PyExc_TypeError,
                 "a timeout is None, a number of seconds or a timedelta, not %.60A", value.ptr());
    throw nb::python_error();
  }
  constexpr double kCentury = 100.0 * 366 * 86400;  // what nanoseconds in 64 bits hold with ease
  if (std::isnan(seconds) || std::fabs(seconds) > kCentury) {
    throw nb::value_error("a timeout must be a number of seconds, at most a century");
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(seconds));
}

}  // namespace tutti::python
