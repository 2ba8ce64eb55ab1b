#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "support/long_tests.hpp"
#include "support/sanitized.hpp"

namespace tutti::test {

/// A number that ./dev sets (TUTTI_ROTATION): it chooses sizes, seeds and cases that need not run
/// each time, so that all of them run every few changes. 0 without it, or if it is "all".
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

/// One case in `of`, by rotation; every case with TUTTI_LONG_TESTS=1 and if nothing rotates. For
/// cases that cost much and of which each finds much the same.
inline bool has_its_turn(std::uint64_t number, std::uint64_t of) {
  return long_tests() || rotates_nothing() || (number + rotation()) % of == 0;
}

/// `fixed` and one of `others`, chosen by rotation; all of them if nothing rotates.
inline std::vector<int> sizes_by_rotation(std::vector<int> fixed, const std::vector<int>& others) {
  if (long_tests() || rotates_nothing()) {
    fixed.insert(fixed.end(), others.begin(), others.end());
    std::sort(fixed.begin(), fixed.end());
  } else {
    fixed.push_back(others[rotation() % others.size()]);
  }
  return fixed;
}

/// World sizes for ranks that are threads: 2, 3 and one that rotates, under sanitizers 3 and one.
inline std::vector<int> world_sizes() {
  return kSanitized ? sizes_by_rotation({3}, {4, 5, 8, 2, 1})
                    : sizes_by_rotation({2, 3}, {4, 5, 8, 1});
}

/// The same without a world of one rank.
inline std::vector<int> world_sizes_of_several() {
  return kSanitized ? sizes_by_rotation({3}, {4, 5, 8, 2}) : sizes_by_rotation({2, 3}, {4, 5, 8});
}

}  // namespace tutti::test
