#include "memory.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>
#include <utility>

#include "errors.hpp"
#include "shown.hpp"

namespace nb = nanobind;

namespace tutti::python {

TensorView Memory::one(nb::handle array, const char* what, Use use) {
  return buffers_.emplace_back(array, operation_, what, use).view();
}

std::vector<TensorView> Memory::list(nb::handle arrays, const char* what, Use use) {
  if (!PyList_Check(arrays.ptr()) && !PyTuple_Check(arrays.ptr())) {
    const std::string type = name_of_type(arrays.type());
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

void Memory::check_op(ReduceOp op) const {
  if (op == ReduceOp::sum || op == ReduceOp::avg) return;
  for (const Buffer& buffer : buffers_) {
    if (!buffer.halves()) continue;
    tutti::raise(Outcome(Errc::invalid_argument, std::string(operation_) + " does not support " +
                                                     std::string(to_string(op)) + " on complex32"));
  }
}

nb::handle Memory::keep(nb::object object) { return kept_.emplace_back(std::move(object)); }

void Memory::let_go() { const std::vector<nb::object> dropped = std::move(kept_); }

Memory::Calls& Memory::calls() {
  if (!calls_) calls_ = std::make_unique<Calls>();
  return *calls_;
}

std::uintptr_t Memory::stream() const noexcept {
  for (const Buffer& buffer : buffers_) {
    if (buffer.stream() != 0) return buffer.stream();
  }
  return 0;
}

std::vector<std::uintptr_t> Memory::streams() const {
  std::vector<std::uintptr_t> all;
  for (const Buffer& buffer : buffers_) all.push_back(buffer.stream());
  return all;
}

std::optional<bool> Memory::has_tensors() const {
  if (buffers_.empty()) return has_tensors_;
  const nb::error_scope kept;  // a Work may be freed while an exception is on its way
  return std::ranges::any_of(buffers_, &Buffer::is_torch);
}

nb::object Memory::exception_of(const Outcome& status) const {
  if (sent_) sent_->note_told();
  if (has_raised().is_valid()) return nb::borrow(has_raised());
  nb::object problem = python::exception_of(status);
  if (const std::optional<bool> tensors = has_tensors()) problem.attr("of_tensors") = *tensors;
  return problem;
}

void Memory::raise(const Outcome& status) const { raise_exception(exception_of(status)); }

void Memory::finish(const Outcome& outcome) {
  if (outcome.ok())
    sent_.reset();
  else if (sent_)
    sent_->set_failure(outcome);
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
