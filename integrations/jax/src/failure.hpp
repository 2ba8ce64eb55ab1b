#pragma once

#include <string>
#include <string_view>

namespace tutti::jax {

/// Keeps the text for the MPI_Error_string that this thread calls next, and returns the error code.
/// jaxlib puts the text into the exception that the program gets.
int fail(std::string text);

/// The text that `fail` kept last in this thread.
[[nodiscard]] std::string_view last_failure() noexcept;

/// Fails for a function that jaxlib's collectives do not call.
int unsupported(std::string_view function);

}  // namespace tutti::jax
