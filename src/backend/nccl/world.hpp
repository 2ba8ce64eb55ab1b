#pragma once

#include "backend/nccl/api.hpp"
#include "cuda/gpu_progress_thread.hpp"

namespace tutti::nccl {

/// The share of all groups of one world on this rank: the libraries, and the thread that makes
/// progress for operations that nobody waits for.
class NcclWorld {
 public:
  NcclWorld(Api& nccl, CudaApi& cuda) : nccl_(nccl), cuda_(cuda) {}

  [[nodiscard]] Api& nccl() const noexcept { return nccl_; }
  [[nodiscard]] CudaApi& cuda() const noexcept { return cuda_; }
  [[nodiscard]] cuda::GpuProgressThread& progress_thread() noexcept { return thread_; }

 private:
  Api& nccl_;
  CudaApi& cuda_;
  cuda::GpuProgressThread thread_;
};

}  // namespace tutti::nccl
