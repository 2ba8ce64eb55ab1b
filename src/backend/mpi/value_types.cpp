#include "backend/mpi/value_types.hpp"

#include <utility>

#include "kernels/reduce.hpp"

namespace tutti::mpi {
namespace {

/// As MPI calls an operation of the program's: of elements of one dtype, which it is made for.
template <int kOp, int kType>
void combine(void* in, void* inout, int* count, void* /*type*/) {
  const void* const sources[] = {in, inout};
  kernels::find_reduce(static_cast<ReduceOp>(kOp), static_cast<DType>(kType))(
      inout, sources, 2, static_cast<std::size_t>(*count));
}

template <int... kCells>
constexpr auto table_of(std::integer_sequence<int, kCells...> /*cells*/) {
  return std::array<UserFunction, sizeof...(kCells)>{
      &combine<kCells / kDTypeCount, kCells % kDTypeCount>...};
}

/// A function for each op and dtype, since MPI passes nothing on to it that would tell them.
constexpr auto kFunctions =
    table_of(std::make_integer_sequence<int, kReduceOpCount * kDTypeCount>());

/// MPI's own operation, where it gives our results: integers, and sums of wide floats. MPI leaves
/// open what MIN and MAX do with NaN; PRODUCT of complex numbers may be computed in another way.
/// Open MPI's sums of 8 and 16 bits saturate on CPUs with AVX, where ours wrap around, and MPICH
/// 4.0 compares unsigned integers as signed ones.
std::optional<BuiltinOp> builtin_of(ReduceOp op, DType dtype) {
  const bool whole = dtype >= DType::uint8 && dtype <= DType::int64;
  const bool is_signed = dtype == DType::int8 || dtype == DType::int16 || dtype == DType::int32 ||
                         dtype == DType::int64;
  const bool real = dtype == DType::float32 || dtype == DType::float64;
  const bool complex = dtype == DType::complex64 || dtype == DType::complex128;
  switch (op) {
    case ReduceOp::sum:
      if ((whole && size_of(dtype) >= 4) || real || complex) return BuiltinOp::sum;
      break;
    case ReduceOp::product:
      if (whole || real) return BuiltinOp::product;
      break;
    case ReduceOp::min:
      if (is_signed) return BuiltinOp::min;
      break;
    case ReduceOp::max:
      if (is_signed) return BuiltinOp::max;
      break;
    case ReduceOp::band:
      if (whole) return BuiltinOp::band;
      break;
    case ReduceOp::bor:
      if (whole) return BuiltinOp::bor;
      break;
    case ReduceOp::bxor:
      if (whole) return BuiltinOp::bxor;
      break;
    default: break;
  }
  return std::nullopt;
}

}  // namespace

int ValueTypes::type_of(DType dtype, Type& type) noexcept {
  std::optional<Type>& known = types_[static_cast<std::size_t>(dtype)];
  if (!known) {
    Type made{};
    if (!api_.builtin(dtype, made)) {
      const int code = api_.make_bytes(static_cast<std::int64_t>(size_of(dtype)), made);
      if (code != 0) return code;
    }
    known = made;
  }
  type = *known;
  return 0;
}

int ValueTypes::reduction(ReduceOp op, DType dtype, ReductionTypes& types) noexcept {
  if (op == ReduceOp::avg || op == ReduceOp::premul_sum) op = ReduceOp::sum;
  if (const int code = type_of(dtype, types.type); code != 0) return code;
  std::optional<Op>& known = ops_[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
  if (!known) {
    if (const auto builtin = builtin_of(op, dtype)) {
      known = api_.builtin(*builtin);
    } else {
      Op made{};
      const auto cell =
          static_cast<std::size_t>(op) * kDTypeCount + static_cast<std::size_t>(dtype);
      if (const int code = api_.make_op(kFunctions[cell], made); code != 0) return code;
      known = made;
    }
  }
  types.op = *known;
  return 0;
}

}  // namespace tutti::mpi
