#pragma once

#include <string>

#include "apps/tutti/explain_call.hpp"

namespace tutti::cli::explain {

/// More cannot be told apart.
inline constexpr int kMostDrawnRanks = 16;
inline constexpr std::size_t kMostDrawnArrows = 600;

/// An SVG: a column for each rank, rounds from top to bottom, an arrow for each message or read. It
/// has its own style for light and dark. Empty: too much for a picture.
[[nodiscard]] std::string picture_of(const Explanation& e);

}  // namespace tutti::cli::explain
