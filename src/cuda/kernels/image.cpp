#include "cuda/kernels/kernels.hpp"

#ifdef TUTTI_CUDA_IMAGE

// The output of nvcc for reduce.cu (CMakeLists.txt), as it is.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden tutti_cuda_image_begin\n"
    ".globl tutti_cuda_image_begin\n"
    "tutti_cuda_image_begin:\n"
    ".incbin \"" TUTTI_CUDA_IMAGE
    "\"\n"
    ".hidden tutti_cuda_image_end\n"
    ".globl tutti_cuda_image_end\n"
    "tutti_cuda_image_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" {
[[gnu::visibility("hidden")]] extern const std::byte tutti_cuda_image_begin[];
[[gnu::visibility("hidden")]] extern const std::byte tutti_cuda_image_end[];
}

namespace tutti::cuda::kernels {
std::span<const std::byte> image() noexcept {
  return {tutti_cuda_image_begin, tutti_cuda_image_end};
}
}  // namespace tutti::cuda::kernels

#else

namespace tutti::cuda::kernels {
std::span<const std::byte> image() noexcept { return {}; }
}  // namespace tutti::cuda::kernels

#endif
