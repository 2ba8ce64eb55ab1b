#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include <nanobind/stl/string.h>

namespace tutti::python {

/// A text of the library as a str; bytes that are not UTF-8 become U+FFFD. For error texts and
/// reprs, which must not fail because of a name. (For keys see `key_object`, which keeps every
/// byte.) Needs the GIL.
[[nodiscard]] inline nanobind::object shown_object(std::string_view text) {
  return nanobind::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

/// "ndarray": the name of a class, of an object's with `given.type()`. Needs the GIL.
[[nodiscard]] inline std::string name_of_type(nanobind::handle type) {
  return nanobind::cast<std::string>(nanobind::str(type.attr("__name__")));
}

/// Raises a built-in Python exception with such a text. Needs the GIL.
[[noreturn]] inline void raise_shown(PyObject* type, std::string_view text) {
  PyErr_SetObject(type, shown_object(text).ptr());
  throw nanobind::python_error();
}

}  // namespace tutti::python
