#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <optional>
#include <string>

#include <tutti/error.hpp>

// The limit of descriptors that a process may have open.
namespace tutti::os {

/// How many more this process may open now, at least; empty: it cannot be known.
[[nodiscard]] std::optional<std::size_t> free_descriptors();

/// Makes sure that this process may open `needed` more, and raises its soft limit if necessary.
/// resource: the hard limit does not allow it; `what` begins the text, "... takes".
[[nodiscard]] Status ensure_descriptors(std::size_t needed, const std::string& what);

/// True if the next descriptor would be one of the last `spare`, or of the last quarter of few.
[[nodiscard]] bool descriptors_run_out(std::size_t spare) noexcept;

/// Lets this process open as many as the system allows it at all, and gives the limits that it had.
rlimit raise_descriptor_limit() noexcept;

}  // namespace tutti::os
