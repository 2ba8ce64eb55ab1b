#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <optional>

// Of how many descriptors a process may have open.
namespace tutti::os {

/// How many more this process may open now, at least; empty: it cannot be known.
[[nodiscard]] std::optional<std::size_t> free_descriptors();

/// Lets this process open as many as the system allows it at all, and gives the limits that it had.
rlimit raise_descriptor_limit() noexcept;

}  // namespace tutti::os
