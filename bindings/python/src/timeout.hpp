#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>

namespace tutti::python {

using Timeout = std::optional<std::chrono::nanoseconds>;

/// None, seconds as a number, or a timedelta. Infinity and timedelta.max mean no limit: a century.
/// Needs the GIL. Throws TypeError for anything else, and ValueError for no number or more than a
/// century.
[[nodiscard]] Timeout timeout_of(nanobind::handle value);

}  // namespace tutti::python
