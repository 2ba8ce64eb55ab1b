// Compares what the backend on MPI knows of an ABI (abi.hpp, functions.hpp) with an installed
// mpi.h: each constant, the layout of MPI_Status, and the parameters of each function. Compiled
// once for each header; TUTTI_MPI_HEADER names it.

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

// The C++ interface of old headers wants a library of its own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#ifndef TUTTI_MPI_HEADER
#define TUTTI_MPI_HEADER <mpi.h>
#endif
#include TUTTI_MPI_HEADER

#include "backend/mpi/abi.hpp"
#include "backend/mpi/functions.hpp"
#include "support/same_call.hpp"

namespace {

using namespace tutti::mpi;
using tutti::DType;

#if defined(OPEN_MPI)
constexpr const AbiConstants& kAbi = kOpenMpiAbi;
#elif defined(MPI_ABI_VERSION)
constexpr const AbiConstants& kAbi = kStandardAbi;
constexpr const AbiHandles& kHandles = kStandardHandles;
#else
constexpr const AbiConstants& kAbi = kMpichAbi;
constexpr const AbiHandles& kHandles = kMpichHandles;
#endif

int compared = 0;
int wrong = 0;

void expect(const char* name, std::uintptr_t header, std::uintptr_t ours) {
  ++compared;
  if (header == ours) return;
  ++wrong;
  std::printf("%s: %#zx in the header, %#zx in abi.hpp\n", name, static_cast<std::size_t>(header),
              static_cast<std::size_t>(ours));
}

template <class Value>
std::uintptr_t word(Value value) {
  if constexpr (std::is_pointer_v<Value>)
    return reinterpret_cast<std::uintptr_t>(value);
  else
    return static_cast<std::uintptr_t>(static_cast<std::intptr_t>(value));
}

using Ours = Functions<std::conditional_t<sizeof(MPI_Comm) == sizeof(int), int, void*>>;

#define SAME(name) TUTTI_SAME_CALL(Ours, name)

void compare_functions() {
  compared += tutti::test::how_many(
      SAME(MPI_Initialized), SAME(MPI_Finalized), SAME(MPI_Init_thread), SAME(MPI_Query_thread),
      SAME(MPI_Is_thread_main), SAME(MPI_Finalize), SAME(MPI_Get_version),
      SAME(MPI_Get_library_version), SAME(MPI_Error_string), SAME(MPI_Comm_rank),
      SAME(MPI_Comm_size), SAME(MPI_Comm_idup), SAME(MPI_Comm_split), SAME(MPI_Comm_group),
      SAME(MPI_Group_incl), SAME(MPI_Group_free), SAME(MPI_Comm_create_group), SAME(MPI_Comm_free),
      SAME(MPI_Comm_set_errhandler), SAME(MPI_Comm_get_attr), SAME(MPI_Type_contiguous),
      SAME(MPI_Type_create_struct), SAME(MPI_Type_commit), SAME(MPI_Type_free), SAME(MPI_Op_create),
      SAME(MPI_Op_free), SAME(MPI_Ibarrier), SAME(MPI_Ibcast), SAME(MPI_Iallreduce),
      SAME(MPI_Ireduce), SAME(MPI_Iscan), SAME(MPI_Iexscan), SAME(MPI_Ireduce_scatter_block),
      SAME(MPI_Ireduce_scatter), SAME(MPI_Iallgather), SAME(MPI_Iallgatherv), SAME(MPI_Igather),
      SAME(MPI_Iscatter), SAME(MPI_Ialltoall), SAME(MPI_Isend), SAME(MPI_Irecv), SAME(MPI_Improbe),
      SAME(MPI_Imrecv), SAME(MPI_Test), SAME(MPI_Get_elements_x), SAME(MPI_Cancel),
      SAME(MPI_Test_cancelled));
}

void compare_constants() {
  static_assert(sizeof(MPI_Status) <= kStatusBytes);
  expect("offset of MPI_SOURCE", offsetof(MPI_Status, MPI_SOURCE), kAbi.status_source);
  expect("offset of MPI_TAG", offsetof(MPI_Status, MPI_TAG), kAbi.status_source + sizeof(int));
  expect("MPI_IN_PLACE", word(MPI_IN_PLACE), word(kAbi.in_place));
  expect("MPI_STATUS_IGNORE", word(MPI_STATUS_IGNORE), word(kAbi.status_ignore));
  expect("MPI_UNDEFINED", word(MPI_UNDEFINED), word(kAbi.undefined));
  expect("MPI_ANY_SOURCE", word(MPI_ANY_SOURCE), word(kAbi.any_source));
  expect("MPI_ANY_TAG", word(MPI_ANY_TAG), word(kAbi.any_tag));
  expect("MPI_TAG_UB", word(MPI_TAG_UB), word(kAbi.tag_ub));
  expect("MPI_THREAD_SINGLE", word(MPI_THREAD_SINGLE), word(kAbi.threading[0]));
  expect("MPI_THREAD_FUNNELED", word(MPI_THREAD_FUNNELED), word(kAbi.threading[1]));
  expect("MPI_THREAD_SERIALIZED", word(MPI_THREAD_SERIALIZED), word(kAbi.threading[2]));
  expect("MPI_THREAD_MULTIPLE", word(MPI_THREAD_MULTIPLE), word(kAbi.threading[3]));
}

#if defined(OPEN_MPI)
const AbiHandles kHandles = [] {
  constexpr OpenMpiSymbols kSymbols;
  const auto known = [](const char* symbol) {
    return symbol == nullptr ? 0 : word(::dlsym(RTLD_DEFAULT, symbol));
  };
  AbiHandles handles{.world = known(kSymbols.world),
                     .self = known(kSymbols.self),
                     .none = known(kSymbols.none),
                     .errors_return = known(kSymbols.errors_return),
                     .byte = known(kSymbols.byte)};
  std::ranges::transform(kSymbols.ops, handles.ops.begin(), known);
  std::ranges::transform(kSymbols.types, handles.types.begin(), known);
  return handles;
}();
#endif

void compare_handles() {
  expect("MPI_COMM_WORLD", word(MPI_COMM_WORLD), kHandles.world);
  expect("MPI_COMM_SELF", word(MPI_COMM_SELF), kHandles.self);
  expect("MPI_COMM_NULL", word(MPI_COMM_NULL), kHandles.none);
#ifdef TUTTI_INTEL_STANDARD_ABI
  expect("MPI_ERRORS_RETURN", word(MPI_ERRORS_RETURN), kIntelStandardErrorsReturn);
#else
  expect("MPI_ERRORS_RETURN", word(MPI_ERRORS_RETURN), kHandles.errors_return);
#endif
  expect("MPI_BYTE", word(MPI_BYTE), kHandles.byte);
  const auto op = [](const char* name, MPI_Op header, BuiltinOp ours) {
    expect(name, word(header), kHandles.ops[static_cast<std::size_t>(ours)]);
  };
  op("MPI_SUM", MPI_SUM, BuiltinOp::sum);
  op("MPI_PROD", MPI_PROD, BuiltinOp::product);
  op("MPI_MIN", MPI_MIN, BuiltinOp::min);
  op("MPI_MAX", MPI_MAX, BuiltinOp::max);
  op("MPI_BAND", MPI_BAND, BuiltinOp::band);
  op("MPI_BOR", MPI_BOR, BuiltinOp::bor);
  op("MPI_BXOR", MPI_BXOR, BuiltinOp::bxor);
  const auto type = [](const char* name, MPI_Datatype header, DType ours) {
    expect(name, word(header), kHandles.types[static_cast<std::size_t>(ours)]);
  };
  type("MPI_UINT8_T", MPI_UINT8_T, DType::uint8);
  type("MPI_INT8_T", MPI_INT8_T, DType::int8);
  type("MPI_UINT16_T", MPI_UINT16_T, DType::uint16);
  type("MPI_INT16_T", MPI_INT16_T, DType::int16);
  type("MPI_UINT32_T", MPI_UINT32_T, DType::uint32);
  type("MPI_INT32_T", MPI_INT32_T, DType::int32);
  type("MPI_UINT64_T", MPI_UINT64_T, DType::uint64);
  type("MPI_INT64_T", MPI_INT64_T, DType::int64);
  type("MPI_FLOAT", MPI_FLOAT, DType::float32);
  type("MPI_DOUBLE", MPI_DOUBLE, DType::float64);
  type("MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, DType::complex64);
  type("MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, DType::complex128);
}

}  // namespace

int main() {
  compare_functions();
  compare_constants();
  compare_handles();
  std::printf("%s: %d compared, %d differ\n", kAbi.name, compared, wrong);
  return wrong == 0 ? 0 : 1;
}
