#pragma once

#include <string>

#include "apps/tutti/explain_call.hpp"

namespace tutti::cli::explain {

/// The explanation for a terminal. Long lists are cut, and say so.
[[nodiscard]] std::string text_of(const Explanation& e);

}  // namespace tutti::cli::explain
