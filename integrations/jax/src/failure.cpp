#include "failure.hpp"

#include <utility>

#include "abi.hpp"

namespace tutti::jax {
namespace {

thread_local std::string last;

}  // namespace

int fail(std::string text) {
  last = "tutti: " + std::move(text);
  return kFailure;
}

std::string_view last_failure() noexcept { return last; }

int unsupported(std::string_view function) {
  return fail(std::string(function) +
              " is not supported: tutti.jax has only the functions of MPI that jaxlib's "
              "collectives call");
}

}  // namespace tutti::jax
