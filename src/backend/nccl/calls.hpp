#pragma once

#include "backend/nccl/api.hpp"
#include "cuda/calls.hpp"

namespace tutti::nccl {

/// Calls functions of NCCL and CUDA one after the other until one fails, and keeps what it says.
class Calls : public cuda::Calls {
 public:
  Calls(Api& nccl, CudaApi& cuda) : cuda::Calls(cuda), nccl_(nccl) {}

  /// The result of a function of NCCL; false: it has failed, and is not only under way.
  bool nccl(const char* function, int code, Comm comm = {}) {
    if (code != 0 && code != kInProgress) keep(function, nccl_.error_text(code, comm));
    return code == 0 || code == kInProgress;
  }

 private:
  Api& nccl_;
};

}  // namespace tutti::nccl
