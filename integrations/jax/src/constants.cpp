#include "abi.hpp"
#include "failure.hpp"
#include "names.hpp"

// All symbols of the ABI but the functions that work, which are in calls.cpp. The loader in jaxlib
// reads the values of the constants when it is loaded.
namespace tutti::jax {
namespace {

// Distinct values, so that no two constants are equal by chance.
#define TUTTI_JAX_PLACE(name) place_of_##name,
enum IntPlace : int { before_ints = 100, TUTTI_JAX_INTS(TUTTI_JAX_PLACE) };
enum WordPlace : Handle { before_words = first_other, TUTTI_JAX_WORDS(TUTTI_JAX_PLACE) };
#undef TUTTI_JAX_PLACE

}  // namespace

#define TUTTI_JAX_INT(name, value) TUTTI_JAX_ABI const int MPIABI_##name = value;
#define TUTTI_JAX_WORD(name, value) TUTTI_JAX_ABI const Handle MPIABI_##name = value;

TUTTI_JAX_ABI const int mpiabi_version_major = 2;
TUTTI_JAX_ABI const int mpiabi_version_minor = 9;
TUTTI_JAX_ABI const int mpiabi_version_patch = 0;
TUTTI_JAX_ABI const int mpiwrapper_version_major = 0;
TUTTI_JAX_ABI const int mpiwrapper_version_minor = 1;
TUTTI_JAX_ABI const int mpiwrapper_version_patch = 0;
// The loader calls it; there is no Fortran here.
TUTTI_JAX_ABI void mpiwrapper_export_fortran_constants_() {}

TUTTI_JAX_INT(SUCCESS, kSuccess)
TUTTI_JAX_INT(ANY_SOURCE, -1)
TUTTI_JAX_INT(ANY_TAG, -1)
TUTTI_JAX_INT(PROC_NULL, -2)
TUTTI_JAX_INT(UNDEFINED, kNoColor)
TUTTI_JAX_INT(THREAD_SINGLE, 0)
TUTTI_JAX_INT(THREAD_FUNNELED, 1)
TUTTI_JAX_INT(THREAD_SERIALIZED, 2)
TUTTI_JAX_INT(THREAD_MULTIPLE, kThreadMultiple)

TUTTI_JAX_WORD(COMM_NULL, null_handle)
TUTTI_JAX_WORD(COMM_WORLD, world_handle)
TUTTI_JAX_WORD(REQUEST_NULL, null_handle)
TUTTI_JAX_WORD(STATUS_IGNORE, 0)
TUTTI_JAX_WORD(STATUSES_IGNORE, 0)
TUTTI_JAX_WORD(BOTTOM, 0)
TUTTI_JAX_WORD(IN_PLACE, in_place)
TUTTI_JAX_WORD(BYTE, byte_type)
TUTTI_JAX_WORD(INT8_T, int8_type)
TUTTI_JAX_WORD(UINT8_T, uint8_type)
TUTTI_JAX_WORD(INT16_T, int16_type)
TUTTI_JAX_WORD(UINT16_T, uint16_type)
TUTTI_JAX_WORD(INT32_T, int32_type)
TUTTI_JAX_WORD(UINT32_T, uint32_type)
TUTTI_JAX_WORD(INT64_T, int64_type)
TUTTI_JAX_WORD(UINT64_T, uint64_type)
TUTTI_JAX_WORD(FLOAT, float32_type)
TUTTI_JAX_WORD(DOUBLE, float64_type)
TUTTI_JAX_WORD(C_COMPLEX, complex64_type)
TUTTI_JAX_WORD(C_DOUBLE_COMPLEX, complex128_type)
TUTTI_JAX_WORD(SUM, sum_op)
TUTTI_JAX_WORD(PROD, product_op)
TUTTI_JAX_WORD(MIN, min_op)
TUTTI_JAX_WORD(MAX, max_op)

// Each pastes its argument at once: some names (SEEK_SET) are macros of the C library.
#define TUTTI_JAX_OTHER_INT(name) TUTTI_JAX_ABI const int MPIABI_##name = place_of_##name;
#define TUTTI_JAX_OTHER_WORD(name) TUTTI_JAX_ABI const Handle MPIABI_##name = place_of_##name;
#define TUTTI_JAX_NO(name) \
  TUTTI_JAX_ABI int MPIABI_##name() { return unsupported("MPI_" #name); }
#define TUTTI_JAX_NO_X(name) \
  TUTTI_JAX_ABI int MPIXABI_##name() { return unsupported("MPIX_" #name); }
// clang-format off
TUTTI_JAX_INTS(TUTTI_JAX_OTHER_INT)
TUTTI_JAX_WORDS(TUTTI_JAX_OTHER_WORD)
TUTTI_JAX_UNSUPPORTED(TUTTI_JAX_NO)
TUTTI_JAX_UNSUPPORTED_X(TUTTI_JAX_NO_X)
// clang-format on

}  // namespace tutti::jax
