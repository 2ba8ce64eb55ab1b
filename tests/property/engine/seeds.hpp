#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "property/engine/script.hpp"
#include "property/engine/simulation.hpp"

namespace tutti::engine::simulation {

/// A world of random shape and speed.
[[nodiscard]] Setup random_setup(Random& random, std::uint64_t seed);
/// Hosts and algorithms, for messages.
[[nodiscard]] std::string describe(const Setup& setup);

/// Runs `body` (empty: good) for seeds 1 .. `seeds`, or as many as TUTTI_SEEDS says, or for
/// TUTTI_SEED alone. Stops at the first that fails and says how to repeat it.
inline void for_each_seed(std::uint64_t seeds,
                          const std::function<std::string(std::uint64_t)>& body) {
  std::uint64_t first = 1;
  if (const char* const many = std::getenv("TUTTI_SEEDS")) seeds = std::strtoull(many, nullptr, 10);
  std::uint64_t last = seeds;
  if (const char* const one = std::getenv("TUTTI_SEED"))
    first = last = std::strtoull(one, nullptr, 10);
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const std::string wrong = body(seed);
    ASSERT_EQ(wrong, "") << "repeat it with TUTTI_SEED=" << seed;
  }
}

}  // namespace tutti::engine::simulation
