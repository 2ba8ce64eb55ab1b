#include "failures.hpp"

#include <string>

#include <c10/util/Exception.h>

namespace tutti::torch_plugin {

std::exception_ptr exception_of(const Outcome& status) {
  const std::string text(status.message());
  switch (status.code()) {
    case Errc::invalid_argument: return std::make_exception_ptr(C10_BUILD_ERROR(ValueError, text));
    case Errc::peer_lost:
    case Errc::peer_left:
    case Errc::refused: return std::make_exception_ptr(C10_BUILD_ERROR(DistNetworkError, text));
    // Programs that know Gloo look for this word in its texts.
    case Errc::timeout:
      return std::make_exception_ptr(
          C10_BUILD_ERROR(DistBackendError, "tutti: a timeout has passed: " + text));
    case Errc::store: return std::make_exception_ptr(C10_BUILD_ERROR(DistStoreError, text));
    default: return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, text));
  }
}

void keep_if_in_use(const Outcome& status, const std::vector<at::Tensor>& tensors) {
  if (status.tensors_in_use()) new std::vector<at::Tensor>(tensors);
}

}  // namespace tutti::torch_plugin
