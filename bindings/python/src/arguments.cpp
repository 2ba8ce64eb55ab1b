#include "arguments.hpp"

#include <algorithm>

#include <nanobind/stl/string.h>

#include "errors.hpp"
#include "shown.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

constexpr std::size_t kLongest = 60;  // bytes of a value in an error text

std::string name_of(const Argument& argument) {
  std::string name = argument.name;
  if (argument.item >= 0) name += "[" + std::to_string(argument.item) + "]";
  return std::string(argument.function) + ": " + name;
}

// "1.5 (float)". A value that may be large, or whose repr may run a program's code, is shown by its
// type only.
std::string shown(nb::handle given) {
  if (given.is_none()) return "None";
  const std::string type = name_of_type(given.type());
  const bool simple = PyBool_Check(given.ptr()) || PyLong_CheckExact(given.ptr()) ||
                      PyFloat_CheckExact(given.ptr()) || PyUnicode_CheckExact(given.ptr());
  if (!simple) return "a value of type " + type;
  // `ascii`, so that the text has no half character, and cutting it is safe.
  const nb::object repr = nb::steal(PyObject_ASCII(given.ptr()));
  if (!repr.is_valid()) {
    PyErr_Clear();  // Python refuses to print ints of very many digits
    return "a value of type " + type;
  }
  std::string value = nb::cast<std::string>(repr);
  if (value.size() > kLongest) value = value.substr(0, kLongest) + "...";
  return value + " (" + type + ")";
}

bool is_rank(std::string_view name) {
  return name == "dst" || name == "src" || name == "root" || name == "peer" || name == "rank" ||
         name == "ranks";
}

// " (a rank of the group, 0 to 3)", where that is what is wanted.
std::string meaning(const Argument& argument) {
  if (argument.group == nullptr || !is_rank(argument.name)) return {};
  const Group group = *argument.group;
  if (group == nullptr) return {};
  return " (a rank of the group, 0 to " + std::to_string(group->size() - 1) + ")";
}

}  // namespace

void refuse(const Argument& argument, std::string_view allowed, nb::handle given) {
  raise_shown(PyExc_TypeError,
              name_of(argument) + " must be " + std::string(allowed) + ", not " + shown(given));
}

std::int64_t whole_number(nb::handle given, const Argument& argument, std::int64_t least,
                          std::int64_t most) {
  // True is an int in Python, but as a rank it is a mistake.
  if (PyBool_Check(given.ptr()) || PyIndex_Check(given.ptr()) == 0)
    refuse(argument, "a whole number" + meaning(argument), given);
  const auto number = nb::steal(PyNumber_Index(given.ptr()));
  if (!number.is_valid()) {
    // An array has an __index__, which fails unless it is a single whole number.
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    refuse(argument, "a whole number" + meaning(argument), given);
  }
  int beyond = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &beyond);
  if (beyond != 0 || value < least || value > most) {
    std::string allowed = meaning(argument);
    if (allowed.empty() && most == std::numeric_limits<std::int64_t>::max()) {
      allowed = " of at least " + std::to_string(least);
    } else if (allowed.empty()) {
      const bool tag =
          std::string_view(argument.name) == "tag";  // the library refuses negative tags
      allowed = " from " + std::to_string(tag ? 0 : least) + " to " + std::to_string(most);
    }
    raise(Outcome(Errc::invalid_argument, name_of(argument) + " must be a whole number" + allowed +
                                              ", not " + shown(number)));
  }
  return value;
}

bool truth(nb::handle given, const Argument& argument) {
  if (!PyBool_Check(given.ptr())) refuse(argument, "True or False", given);
  return given.ptr() == Py_True;
}

std::string text(nb::handle given, const Argument& argument) {
  std::string value;
  if (!nb::try_cast(given, value)) refuse(argument, "text (str)", given);
  return value;
}

nb::object items(nb::handle given, const Argument& argument, std::string_view allowed) {
  if (PyUnicode_Check(given.ptr()) || PyBytes_Check(given.ptr()) ||
      PySequence_Check(given.ptr()) == 0)
    refuse(argument, allowed, given);
  nb::object list = nb::steal(PySequence_List(given.ptr()));
  if (!list.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();  // an array of no dimension
    refuse(argument, allowed, given);
  }
  return list;
}

std::string members_of(nb::handle type) {
  const std::string name = name_of_type(type);
  if (!nb::hasattr(type, "__members__")) return "a tutti." + name;
  std::string all;
  for (const nb::handle member : nb::object(type.attr("__members__")))
    all += (all.empty() ? "tutti." : ", ") + name + "." + nb::cast<std::string>(member);
  return "one of " + all;
}

}  // namespace tutti::python
