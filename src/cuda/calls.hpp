#pragma once

#include <string>

#include <tutti/error.hpp>

#include "cuda/cuda_api.hpp"

namespace tutti::cuda {

/// Calls functions of the driver one after the other until one fails, and keeps what it says.
class Calls {
 public:
  explicit Calls(CudaApi& cuda) : cuda_(cuda) {}

  /// The result of a function of CUDA; false: it has failed.
  bool cuda(const char* function, int code) {
    if (code != 0) keep(function, cuda_.error_text(code));
    return code == 0;
  }
  /// Something else has failed: "<function> failed: <text>". Returns false.
  bool fail(const char* function, const std::string& text) {
    keep(function, text);
    return false;
  }
  [[nodiscard]] bool ok() const noexcept { return failure_.empty(); }
  /// "cuMemcpyAsync failed: ..." of the first that has failed.
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  [[nodiscard]] Outcome status(const std::string& what) const {
    return ok() ? Outcome() : Outcome(Errc::internal, what + failure_);
  }

 protected:
  void keep(const char* function, const std::string& text) {
    if (failure_.empty()) failure_ = std::string(function) + " failed: " + text;
  }

 private:
  CudaApi& cuda_;
  std::string failure_;
};

}  // namespace tutti::cuda
