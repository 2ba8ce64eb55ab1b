#include "cuda_array.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <utility>

#include <tutti/device.hpp>

#include "dtypes.hpp"
#include "shown.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

/// "<f4" of array interfaces; absent: tutti has no such dtype, or not with these bytes.
std::optional<DType> dtype_of_code(const std::string& code) {
  constexpr char kForeign = std::endian::native == std::endian::little ? '>' : '<';
  if (code.size() < 3 || code.size() > 4 || code[0] == kForeign) return std::nullopt;
  if (code.find_first_of("<>=|") != 0) return std::nullopt;
  const std::string digits = code.substr(2);
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const int bytes = std::stoi(digits);
  if (bytes > static_cast<int>(size_of(DType::complex128))) return std::nullopt;  // the largest
  using Code = nb::dlpack::dtype_code;
  Code kind = Code::Int;
  switch (code[1]) {
    case 'f': kind = Code::Float; break;
    case 'i': kind = Code::Int; break;
    case 'u': kind = Code::UInt; break;
    case 'c': kind = Code::Complex; break;
    case 'b': kind = Code::Bool; break;
    default: return std::nullopt;
  }
  nb::dlpack::dtype type;
  type.code = static_cast<std::uint8_t>(kind);
  type.bits = static_cast<std::uint8_t>(8 * bytes);
  type.lanes = 1;
  return dtype_of_dlpack(type);
}

}  // namespace

nb::object attribute_of(nb::handle object, const char* name) {
  nb::object found = nb::steal(PyObject_GetAttrString(object.ptr(), name));
  if (found.is_valid()) return found;
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
  PyErr_Clear();
  return found;
}

nb::object CudaArray::interface_of(nb::handle array) {
  nb::object found = attribute_of(array, "__cuda_array_interface__");
  return found.is_valid() && found.is_none() ? nb::object() : found;
}

CudaArray::CudaArray(nb::handle array) : interface_(interface_of(array)) {
  if (!known()) return;
  if (std::string wrong = read(interface_); !wrong.empty())
    fault_ = "has a __cuda_array_interface__ " + std::move(wrong);
  const nb::object device = attribute_of(array, "device");
  const nb::object id = device.is_valid() ? attribute_of(device, "id") : nb::object();
  if (!id.is_valid() || id.is_none()) {
    if (const std::optional<Device> gpu = gpu_of(data_)) device_ = gpu->index;
  } else if (!nb::try_cast(id, device_) && fault_.empty()) {
    fault_ = "has a device.id that is no whole number";
  }
}

std::string CudaArray::read(nb::handle interface) {
  if (!nb::isinstance<nb::dict>(interface))
    return "that is no dict, but a value of type " + name_of_type(interface.type());
  const nb::object field = interface.attr("get");
  for (const char* const name : {"typestr", "shape", "data"}) {
    if (field(name).is_none()) return "without '" + std::string(name) + "'";
  }
  if (!field("mask").is_none()) return "with a 'mask', which an operation would not heed";
  if (!nb::try_cast(field("typestr"), code_)) return "with a 'typestr' that is no text";
  dtype_ = dtype_of_code(code_);
  if (!nb::try_cast(field("shape"), shape_))
    return "with a 'shape' that is no tuple of whole numbers";
  const nb::object place = field("data");
  std::uintptr_t address = 0;
  if (!nb::isinstance<nb::tuple>(place) || nb::len(place) != 2 ||
      !nb::try_cast(nb::object(place[0]), address) ||
      !nb::try_cast(nb::object(place[1]), read_only_))
    return "with a 'data' that is no pair of an address and a bool";
  data_ = reinterpret_cast<void*>(address);
  if (const nb::object strides = field("strides"); !strides.is_none()) {
    if (!nb::try_cast(strides, strides_))
      return "with 'strides' that are no tuple of whole numbers";
    if (strides_.size() != shape_.size())
      return "with a 'shape' and 'strides' that differ in length (" +
             std::to_string(shape_.size()) + " and " + std::to_string(strides_.size()) + ")";
  }
  if (const nb::object stream = field("stream");
      !stream.is_none() && !nb::try_cast(stream, stream_))
    return "with a 'stream' that is no handle of one";
  return {};
}

std::uintptr_t stream_of(nb::handle array, int device) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  const nb::object module = nb::getattr(array.type(), "__module__", nb::none());
  const std::string of = module.is_none() ? std::string() : nb::cast<std::string>(nb::str(module));
  const nb::object torch = modules.attr("get")("torch");
  if (!torch.is_none() && nb::hasattr(torch, "Tensor") &&
      nb::isinstance(array, torch.attr("Tensor"))) {
    return nb::cast<std::uintptr_t>(
        torch.attr("cuda").attr("current_stream")(device).attr("cuda_stream"));
  }
  const nb::object cupy = modules.attr("get")("cupy");
  if (!cupy.is_none() && of.starts_with("cupy"))
    return nb::cast<std::uintptr_t>(
        cupy.attr("cuda").attr("get_current_stream")(device).attr("ptr"));
  return 0;
}

}  // namespace tutti::python
