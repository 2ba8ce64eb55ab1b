#pragma once

#include <exception>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include <tutti/error.hpp>

namespace tutti::torch_plugin {

/// The exception of torch's own classes that belongs to a failure: torch's Python face turns it
/// into ValueError, DistBackendError, DistNetworkError or DistStoreError.
[[nodiscard]] std::exception_ptr exception_of(const Outcome& status);

/// Keeps tensors until the process ends if MPI may still use them after this failure.
void keep_if_in_use(const Outcome& status, const std::vector<at::Tensor>& tensors);

/// Runs `call`; what the library throws leaves as an exception of torch's.
template <class Call>
decltype(auto) with_torchs_exceptions(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const Error& problem) {
    std::rethrow_exception(exception_of(problem.status()));
  }
}

}  // namespace tutti::torch_plugin
