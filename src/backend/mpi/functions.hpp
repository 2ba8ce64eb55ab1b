#pragma once

#include <cstdint>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// X(name, parameters) for each of them; all return MPI's error code.
#define TUTTI_MPI_FUNCTIONS(X)                                                               \
  X(MPI_Initialized, (int*))                                                                 \
  X(MPI_Finalized, (int*))                                                                   \
  X(MPI_Init_thread, (int*, char***, int, int*))                                             \
  X(MPI_Query_thread, (int*))                                                                \
  X(MPI_Is_thread_main, (int*))                                                              \
  X(MPI_Finalize, ())                                                                        \
  X(MPI_Get_version, (int*, int*))                                                           \
  X(MPI_Get_library_version, (char*, int*))                                                  \
  X(MPI_Error_string, (int, char*, int*))                                                    \
  X(MPI_Comm_rank, (Handle, int*))                                                           \
  X(MPI_Comm_size, (Handle, int*))                                                           \
  X(MPI_Comm_idup, (Handle, Handle*, Handle*))                                               \
  X(MPI_Comm_split, (Handle, int, int, Handle*))                                             \
  X(MPI_Comm_group, (Handle, Handle*))                                                       \
  X(MPI_Group_incl, (Handle, int, const int*, Handle*))                                      \
  X(MPI_Group_free, (Handle*))                                                               \
  X(MPI_Comm_create_group, (Handle, Handle, int, Handle*))                                   \
  X(MPI_Comm_free, (Handle*))                                                                \
  X(MPI_Comm_set_errhandler, (Handle, Handle))                                               \
  X(MPI_Comm_get_attr, (Handle, int, void*, int*))                                           \
  X(MPI_Type_contiguous, (int, Handle, Handle*))                                             \
  X(MPI_Type_create_struct, (int, const int*, const std::intptr_t*, const Handle*, Handle*)) \
  X(MPI_Type_commit, (Handle*))                                                              \
  X(MPI_Type_free, (Handle*))                                                                \
  X(MPI_Op_create, (UserFunction, int, Handle*))                                             \
  X(MPI_Op_free, (Handle*))                                                                  \
  X(MPI_Ibarrier, (Handle, Handle*))                                                         \
  X(MPI_Ibcast, (void*, int, Handle, int, Handle, Handle*))                                  \
  X(MPI_Iallreduce, (const void*, void*, int, Handle, Handle, Handle, Handle*))              \
  X(MPI_Ireduce, (const void*, void*, int, Handle, Handle, int, Handle, Handle*))            \
  X(MPI_Iscan, (const void*, void*, int, Handle, Handle, Handle, Handle*))                   \
  X(MPI_Iexscan, (const void*, void*, int, Handle, Handle, Handle, Handle*))                 \
  X(MPI_Ireduce_scatter_block, (const void*, void*, int, Handle, Handle, Handle, Handle*))   \
  X(MPI_Ireduce_scatter, (const void*, void*, const int*, Handle, Handle, Handle, Handle*))  \
  X(MPI_Iallgather, (const void*, int, Handle, void*, int, Handle, Handle, Handle*))         \
  X(MPI_Iallgatherv,                                                                         \
    (const void*, int, Handle, void*, const int*, const int*, Handle, Handle, Handle*))      \
  X(MPI_Igather, (const void*, int, Handle, void*, int, Handle, int, Handle, Handle*))       \
  X(MPI_Iscatter, (const void*, int, Handle, void*, int, Handle, int, Handle, Handle*))      \
  X(MPI_Ialltoall, (const void*, int, Handle, void*, int, Handle, Handle, Handle*))          \
  X(MPI_Isend, (const void*, int, Handle, int, int, Handle, Handle*))                        \
  X(MPI_Irecv, (void*, int, Handle, int, int, Handle, Handle*))                              \
  X(MPI_Improbe, (int, int, Handle, int*, Handle*, void*))                                   \
  X(MPI_Imrecv, (void*, int, Handle, Handle*, Handle*))                                      \
  X(MPI_Test, (Handle*, int*, void*))                                                        \
  X(MPI_Get_elements_x, (const void*, Handle, std::int64_t*))                                \
  X(MPI_Cancel, (Handle*))                                                                   \
  X(MPI_Test_cancelled, (const void*, int*))

/// MPI's own functions, for handles of one type; the parameters that are not handles are the same
/// in every ABI. `Outcome` is memory that is large enough for any.
template <class Handle>
struct Functions {
#define TUTTI_MEMBER(name, parameters) int(*name) parameters = nullptr;
  TUTTI_MPI_FUNCTIONS(TUTTI_MEMBER)
#undef TUTTI_MEMBER

  /// Extensions; null where the library has none.
  int (*MPIX_Query_cuda_support)() = nullptr;

  /// All of them from an open library. Outcome: the name of the first that it lacks.
  [[nodiscard]] Outcome load(void* library);
};

}  // namespace tutti::mpi
