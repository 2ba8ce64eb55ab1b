#include "buffer.hpp"

#include <nanobind/stl/string.h>

#include <optional>
#include <span>
#include <string>

namespace nb = nanobind;

namespace tutti::python {
namespace {

std::optional<DType> dtype_of(const nb::dlpack::dtype& type) noexcept {
  if (type.lanes != 1) return std::nullopt;
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Bool:
      if (type.bits == 8) return DType::bool_;
      break;
    case nb::dlpack::dtype_code::Int:
      if (type.bits == 8) return DType::int8;
      if (type.bits == 16) return DType::int16;
      if (type.bits == 32) return DType::int32;
      if (type.bits == 64) return DType::int64;
      break;
    case nb::dlpack::dtype_code::UInt:
      if (type.bits == 8) return DType::uint8;
      if (type.bits == 16) return DType::uint16;
      if (type.bits == 32) return DType::uint32;
      if (type.bits == 64) return DType::uint64;
      break;
    case nb::dlpack::dtype_code::Float:
      if (type.bits == 16) return DType::float16;
      if (type.bits == 32) return DType::float32;
      if (type.bits == 64) return DType::float64;
      break;
    case nb::dlpack::dtype_code::Bfloat:
      if (type.bits == 16) return DType::bfloat16;
      break;
    case nb::dlpack::dtype_code::Complex:
      if (type.bits == 64) return DType::complex64;
      if (type.bits == 128) return DType::complex128;
      break;
    default: break;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const char* operation, nb::handle array, const std::string& why) {
  const std::string type = nb::cast<std::string>(nb::str(array.type().attr("__name__")));
  throw nb::type_error((std::string(operation) + ": the " + type + " " + why).c_str());
}

}  // namespace

Buffer::Buffer(nb::handle array, const char* operation) {
  // Never with conversion: that would work on a copy, and the caller would see nothing of the
  // result.
  if (!nb::try_cast<nb::ndarray<>>(array, array_, false)) {
    nb::ndarray<nb::ro> readable;
    if (nb::try_cast<nb::ndarray<nb::ro>>(array, readable, false)) {
      refuse(operation, array,
             "is read-only, and the result would be written into it; pass a copy");
    }
    refuse(
        operation, array,
        "is no array that can be used in place; pass a NumPy array, an object with __dlpack__ or a "
        "writable buffer");
  }
  if (array_.device_type() != nb::device::cpu::value) {
    refuse(operation, array, "is not in the memory of the CPU; copy it there first");
  }
  const std::optional<DType> dtype = dtype_of(array_.dtype());
  if (!dtype) refuse(operation, array, "has elements of a type that tutti does not know");
  view_ = TensorView(array_.data(), *dtype, std::span(array_.shape_ptr(), array_.ndim()),
                     std::span(array_.stride_ptr(), array_.ndim()));
}

}  // namespace tutti::python
