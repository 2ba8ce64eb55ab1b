#include "memory.hpp"

#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace tutti::python {

TensorView Memory::one(nb::handle array, const char* what, Use use) {
  return buffers_.emplace_back(array, operation_, what, use).view();
}

std::vector<TensorView> Memory::list(nb::handle arrays, const char* what, Use use) {
  if (!PyList_Check(arrays.ptr()) && !PyTuple_Check(arrays.ptr())) {
    const std::string type = nb::cast<std::string>(nb::str(arrays.type().attr("__name__")));
    throw nb::type_error((std::string(operation_) + ": the " + what +
                          "s must be a list of arrays, one for each rank, not a " + type)
                             .c_str());
  }
  std::vector<TensorView> views;
  views.reserve(nb::len(arrays));
  buffers_.reserve(buffers_.size() + nb::len(arrays));
  for (const nb::handle array : arrays) views.push_back(one(array, what, use));
  return views;
}

void Memory::finish(const Status& outcome) {
  std::vector<Buffer> buffers = std::move(buffers_);
  buffers_.clear();
  for (Buffer& buffer : buffers) {
    if (outcome.ok()) buffer.finish();
    if (buffer.result().is_valid()) results_.push_back(nb::borrow(buffer.result()));
  }
  if (outcome.tensors_in_use()) new std::vector<Buffer>(std::move(buffers));
}

nb::list Memory::results() const {
  nb::list all;
  for (const Buffer& buffer : buffers_) {
    if (buffer.result().is_valid()) all.append(buffer.result());
  }
  for (const nb::object& result : results_) all.append(result);
  return all;
}

}  // namespace tutti::python
