#pragma once

#include <nanobind/nanobind.h>

#include "memory.hpp"

namespace tutti::python {

/// Puts a PREMUL_SUM's factor into the options of an operation: a number, or an array. None:
/// nothing.
template <class Options>
void take_factor(nanobind::handle factor, Memory& memory, Options& options) {
  if (factor.is_none()) return;
  if (PyFloat_Check(factor.ptr()) || PyLong_Check(factor.ptr())) {
    options.factor = nanobind::cast<double>(factor);
  } else {
    options.factors = memory.one(factor, "factor", Use::read);
  }
}

}  // namespace tutti::python
