#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/bench/build_comparison.hpp"

/// The result of a comparison of two builds, for people and for programs.
namespace tutti::bench {

/// Which builds they are and by which rule a difference counts.
std::string describe(const BuildSettings& settings);

/// All cells, the geometric mean, and which of them are beyond the noise.
std::string describe(const BuildSettings& settings, const Comparison& comparison);

nlohmann::json to_json(const BuildSettings& settings, const Comparison& comparison);

}  // namespace tutti::bench
