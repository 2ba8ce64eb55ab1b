#include "dtypes.hpp"

#include <bit>

namespace nb = nanobind;

namespace tutti::python {
namespace {

std::optional<DType> whole(bool is_signed, std::size_t bytes) noexcept {
  switch (bytes) {
    case 1: return is_signed ? DType::int8 : DType::uint8;
    case 2: return is_signed ? DType::int16 : DType::uint16;
    case 4: return is_signed ? DType::int32 : DType::uint32;
    case 8: return is_signed ? DType::int64 : DType::uint64;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<DType> dtype_of_format(std::string_view format, std::size_t bytes) noexcept {
  if (!format.empty() && std::string_view("@=<>!").find(format.front()) != std::string_view::npos) {
    const bool big = format.front() == '>' || format.front() == '!';
    const bool foreign = big ? std::endian::native != std::endian::big
                             : format.front() == '<' && std::endian::native != std::endian::little;
    if (foreign && bytes > 1) return std::nullopt;
    format.remove_prefix(1);
  }
  if (format == "Zf" && bytes == 8) return DType::complex64;
  if (format == "Zd" && bytes == 16) return DType::complex128;
  if (format.size() != 1) return std::nullopt;
  switch (format.front()) {
    case '?': return bytes == 1 ? std::optional(DType::bool_) : std::nullopt;
    case 'c': return DType::uint8;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return whole(true, bytes);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return whole(false, bytes);
    case 'e': return DType::float16;
    case 'f': return bytes == 4 ? std::optional(DType::float32) : std::nullopt;
    case 'd': return bytes == 8 ? std::optional(DType::float64) : std::nullopt;
    case 'F': return bytes == 8 ? std::optional(DType::complex64) : std::nullopt;
    case 'D': return bytes == 16 ? std::optional(DType::complex128) : std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<DType> dtype_of_name(std::string_view name) noexcept {
  if (name == "bfloat16") return DType::bfloat16;
  // Finite up to 448 and without infinities: ml_dtypes' "float8_e4m3" is another type.
  if (name == "float8_e4m3fn") return DType::float8_e4m3;
  if (name == "float8_e5m2") return DType::float8_e5m2;
  return std::nullopt;
}

std::optional<DType> dtype_of_dlpack(const nb::dlpack::dtype& type) noexcept {
  if (type.lanes != 1) return std::nullopt;
  const std::size_t bytes = type.bits / 8U;
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Bool:
      return type.bits == 8 ? std::optional(DType::bool_) : std::nullopt;
    case nb::dlpack::dtype_code::Int: return type.bits % 8 == 0 ? whole(true, bytes) : std::nullopt;
    case nb::dlpack::dtype_code::UInt:
      return type.bits % 8 == 0 ? whole(false, bytes) : std::nullopt;
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
    case nb::dlpack::dtype_code::Float8_E4M3FN:
      if (type.bits == 8) return DType::float8_e4m3;
      break;
    case nb::dlpack::dtype_code::Float8_E5M2:
      if (type.bits == 8) return DType::float8_e5m2;
      break;
    default: break;
  }
  return std::nullopt;
}

}  // namespace tutti::python
