#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "gil.hpp"

namespace tutti::python {

/// A reference to a Python object that C++ may copy and drop on any thread without the GIL. Making
/// and using it needs the GIL.
using Owned = std::shared_ptr<const nanobind::object>;

[[nodiscard]] inline Owned owned(nanobind::object object) {
  return Owned(new nanobind::object(std::move(object)), [](const nanobind::object* last) {
    if (!nanobind::is_alive()) return;  // the interpreter has ended with all its objects
    const WithGil locked;
    delete last;
  });
}

}  // namespace tutti::python
