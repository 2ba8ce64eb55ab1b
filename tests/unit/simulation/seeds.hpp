#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "support/rotation.hpp"
#include "support/sanitized.hpp"
#include "unit/simulation/script.hpp"
#include "unit/simulation/simulation.hpp"

namespace tutti::engine::simulation {

/// Seeds from here on are those of a rotation.
inline constexpr std::uint64_t kRotatingSeeds = 1'000'000'000;

/// Runs `body` (empty: good) for seeds 1 .. `seeds` and for as many again that follow from the
/// commit; with TUTTI_LONG_TESTS for ten times as many of both, under a sanitizer for half as many.
/// TUTTI_SEEDS sets how many, TUTTI_SEED runs that one alone. Stops at the first seed that fails
/// and says how to repeat it.
inline void for_each_seed(std::uint64_t seeds,
                          const std::function<std::string(std::uint64_t)>& body) {
  if (const char* const one = std::getenv("TUTTI_SEED")) {
    ASSERT_EQ(body(std::strtoull(one, nullptr, 10)), "");
    return;
  }
  if (test::kSanitized) seeds /= 2;
  if (const char* const many = std::getenv("TUTTI_SEEDS")) seeds = std::strtoull(many, nullptr, 10);
  if (test::long_tests()) seeds *= 10;
  for (const std::uint64_t before : {std::uint64_t{0}, kRotatingSeeds + test::rotation() * seeds}) {
    for (std::uint64_t seed = before + 1; seed <= before + seeds; ++seed) {
      const std::string wrong = body(seed);
      ASSERT_EQ(wrong, "") << "repeat it with TUTTI_SEED=" << seed;
    }
  }
}

}  // namespace tutti::engine::simulation
