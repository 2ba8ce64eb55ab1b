#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <string>

#include "shown.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

// The same mapping as tutti::raise.
const char* class_of(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "InvalidArgument";
    case Errc::disagreement: return "DisagreementError";
    case Errc::timeout: return "TimeoutError";
    case Errc::peer_lost:
    case Errc::peer_left:
    case Errc::refused: return "NetworkError";
    case Errc::store: return "StoreError";
    default: return "BackendError";
  }
}

}  // namespace

nb::object exception_of(const Outcome& status) {
  return exception_of(status, class_of(status.code()));
}

void raise_exception(const nb::object& problem) {
  PyErr_SetObject(problem.type().ptr(), problem.ptr());
  throw nb::python_error();
}

void raise_as(const char* type, const Outcome& status) {
  raise_exception(exception_of(status, type));
}

nb::object exception_of(const Outcome& status, const char* type) {
  nb::object problem =
      nb::module_::import_("tutti.errors").attr(type)(shown_object(status.message()));
  problem.attr("code") = std::string(to_string(status.code()));
  problem.attr("culprit") = status.culprit();
  return problem;
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& problem, void*) {
    try {
      std::rethrow_exception(problem);
    } catch (const Error& error) {
      const nb::object translated = exception_of(error.status());
      PyErr_SetObject(translated.type().ptr(), translated.ptr());
    }
  });
}

}  // namespace tutti::python
