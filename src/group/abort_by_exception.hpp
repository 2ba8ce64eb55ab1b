#pragma once

#include <tutti/backend/backend.hpp>

namespace tutti::group {

/// Breaks a group because an exception has made this rank skip calls, so that it is out of step
/// with the others.
void abort_by_exception(Backend& group) noexcept;

}  // namespace tutti::group
