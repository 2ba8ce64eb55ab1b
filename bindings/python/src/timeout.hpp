#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>

namespace tutti::python {

using Timeout = std::optional<std::chrono::nanoseconds>;

/// Converts None, seconds as a number, or a timedelta. Infinity and timedelta.max mean no limit,
/// which is a century here. Needs the GIL. Throws TypeError for other types, and ValueError for NaN
/// or more than a century.
[[nodiscard]] Timeout timeout_of(nanobind::handle value);

}  // namespace tutti::python
