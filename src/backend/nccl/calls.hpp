#pragma once

#include "backend/nccl/api.hpp"
#include "cuda/calls.hpp"

namespace tutti::nccl {

/// Calls functions of NCCL and CUDA one after the other until one fails, and keeps what it says.
class Calls : public cuda::Calls {
 public:
  Calls(Api& nccl, CudaApi& cuda) : cuda::Calls(cuda), nccl_(nccl) {}

  /// The result of a function of NCCL; what is still under way has not failed, and `in_progress`
  /// tells of it.
  bool nccl(const char* function, int code, Comm comm = {}) {
    if (code == kInProgress) in_progress_ = true;
    if (code != 0 && code != kInProgress) keep(function, nccl_.error_text(code, comm));
    return code == 0 || code == kInProgress;
  }
  [[nodiscard]] bool in_progress() const noexcept { return in_progress_; }

 private:
  Api& nccl_;
  bool in_progress_ = false;
};

}  // namespace tutti::nccl
