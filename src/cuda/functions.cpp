#include "cuda/functions.hpp"

#include "cuda/function_finder.hpp"

namespace tutti::cuda {

Outcome CudaFunctions::load(void* library) {
  FunctionFinder finder(library);
#define TUTTI_FIND(name, parameters) finder.find(name, #name);
  TUTTI_CUDA_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return finder.found("a driver for CUDA 11.2 or later is needed");
}

}  // namespace tutti::cuda
