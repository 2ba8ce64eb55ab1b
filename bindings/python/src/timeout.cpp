#include "timeout.hpp"

#include <nanobind/stl/chrono.h>

#include <cmath>
#include <limits>

namespace nb = nanobind;

namespace tutti::python {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr int kMostDays = 999'999'999;  // timedelta.max, which means no limit

/// The days of a timedelta; 0 for other types.
int days_of(nb::handle value) {
  int days = 0;
  if (!nb::hasattr(value, "days") || !nb::try_cast(value.attr("days"), days)) return 0;
  return days;
}

}  // namespace

Timeout timeout_of(nb::handle value) {
  using Seconds = std::chrono::duration<double>;
  constexpr double kCentury = 100.0 * 366 * 86400;  // fits into 64 bits of nanoseconds
  if (value.is_none()) return std::nullopt;
  double seconds = 0;
  const bool number = PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr());
  if (number && !PyBool_Check(value.ptr())) {
    seconds = PyFloat_AsDouble(value.ptr());
    if (seconds == -1.0 && PyErr_Occurred() != nullptr) {  // the int is too large for a float
      PyErr_Clear();
      seconds = std::numeric_limits<double>::max();
    }
  } else if (days_of(value) * 86400.0 > kCentury) {  // too long for the conversion below
    seconds = days_of(value) == kMostDays ? kNoLimit : days_of(value) * 86400.0;
  } else if (std::chrono::nanoseconds exact{}; nb::try_cast(value, exact, false)) {
    seconds = Seconds(exact).count();
  } else {
    PyErr_Format(PyExc_TypeError,
                 "a timeout is None, a number of seconds or a timedelta, not %.60A", value.ptr());
    throw nb::python_error();
  }
  if (seconds == kNoLimit) seconds = kCentury;
  if (std::isnan(seconds) || std::fabs(seconds) > kCentury) {
    throw nb::value_error(
        "a timeout must be a number of seconds, at most a century, or float('inf') for no limit");
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(seconds));
}

}  // namespace tutti::python
