#pragma once

#include <cstdint>
#include <string>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// MPI's own functions, for handles of one type; the parameters that are not handles are the same
/// in every ABI. `Outcome` is memory that is large enough for any.
template <class Handle>
struct Functions {
  int (*MPI_Initialized)(int*) = nullptr;
  int (*MPI_Finalized)(int*) = nullptr;
  int (*MPI_Init_thread)(int*, char***, int, int*) = nullptr;
  int (*MPI_Query_thread)(int*) = nullptr;
  int (*MPI_Is_thread_main)(int*) = nullptr;
  int (*MPI_Finalize)() = nullptr;
  int (*MPI_Get_version)(int*, int*) = nullptr;
  int (*MPI_Get_library_version)(char*, int*) = nullptr;
  int (*MPI_Error_string)(int, char*, int*) = nullptr;
  int (*MPI_Comm_rank)(Handle, int*) = nullptr;
  int (*MPI_Comm_size)(Handle, int*) = nullptr;
  int (*MPI_Comm_idup)(Handle, Handle*, Handle*) = nullptr;
  int (*MPI_Comm_split)(Handle, int, int, Handle*) = nullptr;
  int (*MPI_Comm_group)(Handle, Handle*) = nullptr;
  int (*MPI_Group_incl)(Handle, int, const int*, Handle*) = nullptr;
  int (*MPI_Group_free)(Handle*) = nullptr;
  int (*MPI_Comm_create_group)(Handle, Handle, int, Handle*) = nullptr;
  int (*MPI_Comm_free)(Handle*) = nullptr;
  int (*MPI_Comm_set_errhandler)(Handle, Handle) = nullptr;
  int (*MPI_Comm_get_attr)(Handle, int, void*, int*) = nullptr;
  int (*MPI_Type_contiguous)(int, Handle, Handle*) = nullptr;
  int (*MPI_Type_create_struct)(int, const int*, const std::intptr_t*, const Handle*,
                                Handle*) = nullptr;
  int (*MPI_Type_commit)(Handle*) = nullptr;
  int (*MPI_Type_free)(Handle*) = nullptr;
  int (*MPI_Op_create)(UserFunction, int, Handle*) = nullptr;
  int (*MPI_Op_free)(Handle*) = nullptr;
  int (*MPI_Ibarrier)(Handle, Handle*) = nullptr;
  int (*MPI_Ibcast)(void*, int, Handle, int, Handle, Handle*) = nullptr;
  int (*MPI_Iallreduce)(const void*, void*, int, Handle, Handle, Handle, Handle*) = nullptr;
  int (*MPI_Ireduce)(const void*, void*, int, Handle, Handle, int, Handle, Handle*) = nullptr;
  int (*MPI_Iscan)(const void*, void*, int, Handle, Handle, Handle, Handle*) = nullptr;
  int (*MPI_Iexscan)(const void*, void*, int, Handle, Handle, Handle, Handle*) = nullptr;
  int (*MPI_Ireduce_scatter_block)(const void*, void*, int, Handle, Handle, Handle,
                                   Handle*) = nullptr;
  int (*MPI_Ireduce_scatter)(const void*, void*, const int*, Handle, Handle, Handle,
                             Handle*) = nullptr;
  int (*MPI_Iallgather)(const void*, int, Handle, void*, int, Handle, Handle, Handle*) = nullptr;
  int (*MPI_Iallgatherv)(const void*, int, Handle, void*, const int*, const int*, Handle, Handle,
                         Handle*) = nullptr;
  int (*MPI_Igather)(const void*, int, Handle, void*, int, Handle, int, Handle, Handle*) = nullptr;
  int (*MPI_Iscatter)(const void*, int, Handle, void*, int, Handle, int, Handle, Handle*) = nullptr;
  int (*MPI_Ialltoall)(const void*, int, Handle, void*, int, Handle, Handle, Handle*) = nullptr;
  int (*MPI_Isend)(const void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*MPI_Irecv)(void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*MPI_Improbe)(int, int, Handle, int*, Handle*, void*) = nullptr;
  int (*MPI_Imrecv)(void*, int, Handle, Handle*, Handle*) = nullptr;
  int (*MPI_Test)(Handle*, int*, void*) = nullptr;
  int (*MPI_Get_elements_x)(const void*, Handle, std::int64_t*) = nullptr;
  int (*MPI_Cancel)(Handle*) = nullptr;
  /// Extensions; null where the library has none.
  int (*MPIX_Query_cuda_support)() = nullptr;

  /// All of them from an open library. Outcome: the name of the first that it lacks.
  [[nodiscard]] Outcome load(void* library);
};

}  // namespace tutti::mpi
