#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/bench/measure.hpp"

namespace tutti::bench {

/// The lines above the rows of an operation with a number of ranks.
std::string table_head(const Point& point);
/// A row per library: microseconds and GB/s. `ratio` of ours: to the best peer, round by round.
std::string table_rows(const Point& point);

/// How the run measures: "mode loop, 5 rounds in turns".
std::string describe(const Settings& settings);

/// One line about a library that was started, or was not.
std::string describe(const Started& started);

/// Everything: the settings, the versions, and of each point the figures of every round.
nlohmann::json to_json(const Settings& settings, const Results& results);

}  // namespace tutti::bench
