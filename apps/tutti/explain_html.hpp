#pragma once

#include <string>

#include "apps/tutti/explain_call.hpp"

namespace tutti::cli::explain {

/// The explanation as a page that needs no other file: facts, the picture, a table of all that
/// moves. If that is too much, the picture and the table are sums, and the page says so.
[[nodiscard]] std::string html_of(const Explanation& e);

}  // namespace tutti::cli::explain
