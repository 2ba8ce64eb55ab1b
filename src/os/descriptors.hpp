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
[[nodiscard]] Outcome ensure_descriptors(std::size_t needed, const std::string& what);

/// Closes all descriptors from this number on. In a process with one thread.
void close_descriptors_from(int first);

/// Opens /dev/null for each of 0, 1 and 2 that is closed: what a program opens later would get the
/// number, and what is printed would go there. For the beginning of a program.
void open_standard_streams() noexcept;

/// True if the next descriptor would be one of the last `spare`, or of the last quarter of few.
[[nodiscard]] bool descriptors_run_out(std::size_t spare) noexcept;

/// Lets this process open as many as the system allows it at all, and gives the limits that it had.
rlimit raise_descriptor_limit() noexcept;

}  // namespace tutti::os
