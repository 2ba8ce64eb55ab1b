#include "cuda/kernels/kernels.hpp"

#include <string_view>

namespace tutti::cuda::kernels {
namespace {

bool is_integer(DType dtype) noexcept { return dtype >= DType::uint8 && dtype <= DType::int64; }

/// Signed integers as unsigned ones: they wrap.
DType without_sign(DType dtype) noexcept {
  switch (dtype) {
    case DType::int8: return DType::uint8;
    case DType::int16: return DType::uint16;
    case DType::int32: return DType::uint32;
    case DType::int64: return DType::uint64;
    default: return dtype;
  }
}

std::string_view name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::avg: return "avg";
    case ReduceOp::product: return "product";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::band: return "band";
    case ReduceOp::bor: return "bor";
    case ReduceOp::bxor: return "bxor";
    case ReduceOp::premul_sum: break;
  }
  return {};
}

Kernel make(std::string_view name, DType dtype, std::size_t per_count = 1) {
  return {"tutti_" + std::string(name) + '_' + std::string(to_string(dtype)), per_count};
}

Kernel make(ReduceOp op, DType dtype, std::size_t per_count = 1) {
  return make(name_of(op), dtype, per_count);
}

/// On 0 and 1, the arithmetic of truth values is that of single bits.
std::optional<Kernel> kernel_of_bool(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor: return make(ReduceOp::bor, DType::bool_);
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band: return make(ReduceOp::band, DType::bool_);
    case ReduceOp::bxor: return make(op, DType::bool_);
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<Kernel> kernel_of(ReduceOp op, DType dtype) {
  if (dtype == DType::bool_) return kernel_of_bool(op);
  const bool complex = dtype == DType::complex64 || dtype == DType::complex128;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      // Components are added and divided like so many floats.
      if (complex) return make(op, dtype == DType::complex64 ? DType::float32 : DType::float64, 2);
      return make(op, op == ReduceOp::avg ? dtype : without_sign(dtype));
    case ReduceOp::product: return make(op, without_sign(dtype));
    case ReduceOp::min:
    case ReduceOp::max:
      if (complex) return std::nullopt;
      return make(op, dtype);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      if (!is_integer(dtype)) return std::nullopt;
      return make(op, DType::uint8, size_of(dtype));
    case ReduceOp::premul_sum: break;
  }
  return std::nullopt;
}

std::optional<Kernel> scale_kernel_of(DType dtype) {
  if (dtype == DType::bool_) return std::nullopt;
  return make("scale", without_sign(dtype));
}

}  // namespace tutti::cuda::kernels
