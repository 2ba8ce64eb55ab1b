#include "backend/nccl/mapping.hpp"

#include <algorithm>

#include <tutti/backend/kinds.hpp>
#include "backend/nccl/promises.hpp"
#include "kernels/reduce.hpp"

namespace tutti::nccl {
namespace {

std::optional<Type> number_type(DType dtype, int version) noexcept {
  switch (dtype) {
    case DType::bool_:
    case DType::uint8: return Type::uint8;
    case DType::int8: return Type::int8;
    case DType::uint32: return Type::uint32;
    case DType::int32: return Type::int32;
    case DType::uint64: return Type::uint64;
    case DType::int64: return Type::int64;
    case DType::float16: return Type::float16;
    case DType::bfloat16: return Type::bfloat16;
    case DType::float32:
    case DType::complex64: return Type::float32;
    case DType::float64:
    case DType::complex128: return Type::float64;
    case DType::float8_e4m3:
      return version < kFloat8Version ? std::nullopt : std::optional(Type::float8_e4m3);
    case DType::float8_e5m2:
      return version < kFloat8Version ? std::nullopt : std::optional(Type::float8_e5m2);
    case DType::uint16:
    case DType::int16: break;
  }
  return std::nullopt;
}

bool is_bitwise(ReduceOp op) noexcept {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

}  // namespace

std::optional<Reduction> reduction_of(ReduceOp op, DType dtype, int version) noexcept {
  if (!kernels::is_supported(op, dtype)) return std::nullopt;
  const std::optional<Type> type = number_type(dtype, version);
  if (!type) return std::nullopt;
  Reduction made;
  made.type = *type;
  const bool truth = dtype == DType::bool_;
  const bool complex = dtype == DType::complex64 || dtype == DType::complex128;
  if (complex) made.per_element = 2;
  switch (op) {
    case ReduceOp::sum: made.op = truth ? Op::max : Op::sum; return made;
    case ReduceOp::avg: made.op = Op::avg; return made;
    case ReduceOp::product:
      if (complex) return std::nullopt;
      made.op = truth ? Op::min : Op::product;
      return made;
    case ReduceOp::min: made.op = Op::min; return made;
    case ReduceOp::max: made.op = Op::max; return made;
    case ReduceOp::premul_sum:
      if (complex) return std::nullopt;
      return made;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: break;
  }
  return std::nullopt;
}

std::string why_unsupported(const Collective& call, int version) {
  const KindTraits& traits = traits_of(call.kind);
  if (traits.layout == Layout::none) return {};
  const bool by_output = traits.layout == Layout::scatter || call.kind == Kind::recv;
  const TensorView& view = by_output ? call.output : call.input;
  if (view.device().type != DeviceType::cuda)
    return std::string("the ") + (by_output ? "output" : "input") + " is in the memory of " +
           to_string(view.device()) +
           ", and the backend 'nccl' takes tensors in the memory of a GPU; use the backend "
           "'native' for it";
  if (std::ranges::find(kLacks, call.kind) != std::end(kLacks))
    return "NCCL has no " + std::string(traits.name) + "; use the backend 'native' for it";
  if (traits.layout == Layout::pair && call.tag == any_tag)
    return "NCCL has no any_tag; give the tag, or use the backend 'native' for it";
  if (!traits.reduces) return {};
  const std::string op(to_string(call.op));
  const std::string dtype(to_string(view.dtype()));
  if (!kernels::is_supported(call.op, view.dtype())) return op + " of " + dtype + " has no meaning";
  if (is_bitwise(call.op))
    return "NCCL has no " + op + ", nor any other op on bits; use the backend 'native' for it";
  if (reduction_of(call.op, view.dtype(), version)) return {};
  const bool float8 = view.dtype() == DType::float8_e4m3 || view.dtype() == DType::float8_e5m2;
  return "this NCCL has no " + op + " of " + dtype +
         (float8 ? " (2.24 and later have)" : "; use the backend 'native' for it");
}

}  // namespace tutti::nccl
