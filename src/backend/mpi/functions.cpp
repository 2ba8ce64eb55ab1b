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
#define TUTTI_FIND(name, parameters) find(name, #name);
  TUTTI_MPI_FUNCTIONS(TUTTI_FIND)
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
