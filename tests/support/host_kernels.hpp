#pragma once

#include <cstddef>
#include <string_view>

#include "cuda/kernels/elements.hpp"

// The kernels of GPUs as the host runs them: the same functions for each element.
namespace tutti::cuda::kernels {

using HostKernel = void (*)(const ReduceArguments& all);

/// By its name, "tutti_sum_float32"; null: there is none. It runs some threads one after the other.
inline HostKernel host_kernel(std::string_view name) {
#define TUTTI_HOST_KERNEL(its_name, Element, Op, divides) \
  if (name == "tutti_" #its_name)                         \
    return [](const ReduceArguments& all) {               \
      for (std::size_t thread = 0; thread < 3; ++thread)  \
        reduce<Element, Op, divides>(all, thread, 3);     \
    };
  TUTTI_KERNELS(TUTTI_HOST_KERNEL)
#undef TUTTI_HOST_KERNEL
  return nullptr;
}

/// Bytes of an element of it.
inline std::size_t host_kernel_bytes(std::string_view name) {
#define TUTTI_KERNEL_BYTES(its_name, Element, Op, divides) \
  if (name == "tutti_" #its_name) return sizeof(Element::Stored);
  TUTTI_KERNELS(TUTTI_KERNEL_BYTES)
#undef TUTTI_KERNEL_BYTES
  return 0;
}

}  // namespace tutti::cuda::kernels
