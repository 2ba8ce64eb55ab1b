#pragma once

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <vector>

#include "support/long_tests.hpp"
#include "support/sanitized.hpp"

namespace tutti::test {

/// A number that follows from the commit (TUTTI_ROTATION, which ./dev sets): what need not run each
/// time is chosen by it, so that all of it runs every few commits. 0 without it, or if it is "all".
inline std::uint64_t rotation() {
  const char* const text = std::getenv("TUTTI_ROTATION");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// TUTTI_ROTATION=all: sizes are not chosen, all of them run.
inline bool rotates_nothing() {
  const char* const text = std::getenv("TUTTI_ROTATION");
  return text != nullptr && std::string_view(text) == "all";
}

/// Under sanitizers one case in three, by rotation; else every case. For cases that differ in their
/// elements, which sanitizers do not look at.
inline bool takes_case(std::uint64_t number) {
  return !kSanitized || long_tests() || rotates_nothing() || (number + rotation()) % 3 == 0;
}

/// World sizes for ranks that are threads. Under sanitizers three of them: 2, 3, and one by
/// rotation.
inline std::vector<int> world_sizes() {
  if (!kSanitized || long_tests() || rotates_nothing()) return {1, 2, 3, 4, 5, 8};
  constexpr int kOthers[] = {4, 5, 8, 1};
  return {2, 3, kOthers[rotation() % std::size(kOthers)]};
}

/// The same without a world of one rank.
inline std::vector<int> world_sizes_of_several() {
  if (!kSanitized || long_tests() || rotates_nothing()) return {2, 3, 4, 5, 8};
  constexpr int kOthers[] = {4, 5, 8};
  return {2, 3, kOthers[rotation() % std::size(kOthers)]};
}

}  // namespace tutti::test
