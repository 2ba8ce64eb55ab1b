#include "backend/mpi/functions.hpp"

#include <dlfcn.h>

namespace tutti::mpi {

template <class Handle>
Outcome Functions<Handle>::load(void* library) {
  const char* lacks = nullptr;
  const auto find = [&](auto& function, const char* name, bool needed = true) {
    using Pointer = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Pointer>(::dlsym(library, name));
    if (function == nullptr && needed && lacks == nullptr) lacks = name;
  };
#define TUTTI_FIND(name) find(name, #name)
  TUTTI_FIND(MPI_Initialized);
  TUTTI_FIND(MPI_Finalized);
  TUTTI_FIND(MPI_Init_thread);
  TUTTI_FIND(MPI_Query_thread);
  TUTTI_FIND(MPI_Is_thread_main);
  TUTTI_FIND(MPI_Finalize);
  TUTTI_FIND(MPI_Get_version);
  TUTTI_FIND(MPI_Get_library_version);
  TUTTI_FIND(MPI_Error_string);
  TUTTI_FIND(MPI_Comm_rank);
  TUTTI_FIND(MPI_Comm_size);
  TUTTI_FIND(MPI_Comm_idup);
  TUTTI_FIND(MPI_Comm_split);
  TUTTI_FIND(MPI_Comm_group);
  TUTTI_FIND(MPI_Group_incl);
  TUTTI_FIND(MPI_Group_free);
  TUTTI_FIND(MPI_Comm_create_group);
  TUTTI_FIND(MPI_Comm_free);
  TUTTI_FIND(MPI_Comm_set_errhandler);
  TUTTI_FIND(MPI_Comm_get_attr);
  TUTTI_FIND(MPI_Type_contiguous);
  TUTTI_FIND(MPI_Type_create_struct);
  TUTTI_FIND(MPI_Type_commit);
  TUTTI_FIND(MPI_Type_free);
  TUTTI_FIND(MPI_Op_create);
  TUTTI_FIND(MPI_Op_free);
  TUTTI_FIND(MPI_Ibarrier);
  TUTTI_FIND(MPI_Ibcast);
  TUTTI_FIND(MPI_Iallreduce);
  TUTTI_FIND(MPI_Ireduce);
  TUTTI_FIND(MPI_Iscan);
  TUTTI_FIND(MPI_Iexscan);
  TUTTI_FIND(MPI_Ireduce_scatter_block);
  TUTTI_FIND(MPI_Ireduce_scatter);
  TUTTI_FIND(MPI_Iallgather);
  TUTTI_FIND(MPI_Iallgatherv);
  TUTTI_FIND(MPI_Igather);
  TUTTI_FIND(MPI_Iscatter);
  TUTTI_FIND(MPI_Ialltoall);
  TUTTI_FIND(MPI_Isend);
  TUTTI_FIND(MPI_Irecv);
  TUTTI_FIND(MPI_Improbe);
  TUTTI_FIND(MPI_Imrecv);
  TUTTI_FIND(MPI_Test);
  TUTTI_FIND(MPI_Get_elements_x);
  TUTTI_FIND(MPI_Cancel);
#undef TUTTI_FIND
  find(MPIX_Query_cuda_support, "MPIX_Query_cuda_support", false);
  if (lacks != nullptr)
    return Outcome(Errc::unsupported,
                   std::string("it has no ") + lacks + "; MPI 3.0 or later is needed");
  return {};
}

template struct Functions<int>;
template struct Functions<void*>;

}  // namespace tutti::mpi
