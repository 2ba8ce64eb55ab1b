#include "cuda_array.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bit>

#include "dtypes.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

/// "<f4" of array interfaces; absent: tutti has no such dtype, or not with these bytes.
std::optional<DType> dtype_of_code(const std::string& code) {
  constexpr char kForeign = std::endian::native == std::endian::little ? '>' : '<';
  if (code.size() < 3 || code.size() > 4 || code[0] == kForeign) return std::nullopt;
  const std::string bytes = code.substr(2);
  if (bytes.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
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
  type.bits = static_cast<std::uint8_t>(8 * std::stoi(bytes));
  type.lanes = 1;
  return dtype_of_dlpack(type);
}

}  // namespace

CudaArray::CudaArray(nb::handle array) {
  nb::object found = nb::getattr(array, "__cuda_array_interface__", nb::none());
  if (found.is_none()) return;
  try {
    const auto fields = nb::cast<nb::dict>(found);
    code_ = nb::cast<std::string>(fields["typestr"]);
    dtype_ = dtype_of_code(code_);
    shape_ = nb::cast<std::vector<std::int64_t>>(fields["shape"]);
    const auto place = nb::cast<nb::tuple>(fields["data"]);
    data_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(place[0]));
    read_only_ = nb::cast<bool>(place[1]);
    if (const nb::object strides = fields.attr("get")("strides"); !strides.is_none())
      strides_ = nb::cast<std::vector<std::int64_t>>(strides);
    if (const nb::object stream = fields.attr("get")("stream"); !stream.is_none())
      stream_ = nb::cast<std::uintptr_t>(stream);
    const nb::object device = nb::getattr(array, "device", nb::none());
    if (nb::hasattr(device, "id")) device_ = nb::cast<std::int16_t>(device.attr("id"));
  } catch (const nb::cast_error&) {
    throw nb::type_error("an array's __cuda_array_interface__ is not what its version 3 says");
  }
  interface_ = std::move(found);
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
