#include "backend/nccl/functions.hpp"

#include "cuda/function_finder.hpp"

namespace tutti::nccl {

Outcome NcclFunctions::load(void* library) {
  cuda::FunctionFinder finder(library);
#define TUTTI_FIND(result, name, parameters) finder.find(name, #name);
  TUTTI_NCCL_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return finder.found("NCCL 2.19 or later is needed");
}

}  // namespace tutti::nccl
