#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "support/long_tests.hpp"
#include "support/sanitized.hpp"

namespace tutti::test {

/// A number that follows from the commit (TUTTI_ROTATION, which ./dev sets): what need not run each
/// time is chosen by it, so that all of it runs every few commits. 0 without it.
inline std::uint64_t rotation() {
  const char* const text = std::getenv("TUTTI_ROTATION");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// World sizes for ranks that are threads. Under sanitizers three of them: 2, 3, and one by
/// rotation.
inline std::vector<int> world_sizes() {
  if (!kSanitized || long_tests()) return {1, 2, 3, 4, 5, 8};
  constexpr int kOthers[] = {4, 5, 8, 1};
  return {2, 3, kOthers[rotation() % std::size(kOthers)]};
}

/// The same without a world of one rank.
inline std::vector<int> world_sizes_of_several() {
  if (!kSanitized || long_tests()) return {2, 3, 4, 5, 8};
  constexpr int kOthers[] = {4, 5, 8};
  return {2, 3, kOthers[rotation() % std::size(kOthers)]};
}

}  // namespace tutti::test
