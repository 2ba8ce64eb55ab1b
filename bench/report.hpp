#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure.hpp"

namespace tutti::bench {

/// The lines of the table, one library per column; peers in the order they were asked for.
class Table {
 public:
  explicit Table(std::vector<std::string> libraries);
  [[nodiscard]] std::string head() const;
  [[nodiscard]] std::string row(const Point& point) const;

 private:
  std::vector<std::string> libraries_;
  bool unchecked_;  ///< kOursUnchecked is one of them, with a ratio of its own
};

/// One line about a library that was started, or was not.
std::string describe(const Started& started);

/// Everything: the settings, the versions, and of each point the figures of every round.
nlohmann::json to_json(const Settings& settings, const Results& results);

}  // namespace tutti::bench
