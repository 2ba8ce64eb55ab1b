// The kernels of reductions on GPUs. nvcc makes a fatbin of them, which stands in the library
// (image.cpp) and is loaded by the driver.

#include "cuda/kernels/elements.hpp"

#define TUTTI_KERNEL(name, Element, Op, divides)                                              \
  extern "C" __global__ void __launch_bounds__(256)                                           \
      tutti_##name(const __grid_constant__ tutti::cuda::kernels::ReduceArguments all) {       \
    using namespace tutti::cuda::kernels;                                                     \
    reduce<Element, Op, divides>(all, std::size_t{blockIdx.x} * blockDim.x + threadIdx.x,     \
                                 std::size_t{gridDim.x} * blockDim.x);                        \
  }

TUTTI_KERNELS(TUTTI_KERNEL)
