#pragma once

#include <istream>
#include <optional>
#include <sstream>

#include "job.hpp"

namespace tutti::fault {

/// The resources that a worker held, as it tells them: "descriptors,mappings,threads".
struct Holdings {
  int descriptors = 0;
  int mappings = 0;
  int threads = 0;
};

inline std::istream& operator>>(std::istream& in, Holdings& holdings) {
  char comma = 0;
  return in >> holdings.descriptors >> comma >> holdings.mappings >> comma >> holdings.threads;
}

/// The holdings of a worker before its world and after it.
struct HoldingsAround {
  Holdings before;
  Holdings after;
  /// A process makes once: two epolls and an eventfd to progress, and the pipe that tells its end.
  [[nodiscard]] int most_descriptors() const { return before.descriptors + 5; }
};

/// Nothing if the worker has not told of them.
inline std::optional<HoldingsAround> holdings_of(Worker& worker) {
  const auto left = worker.heard("left");
  if (!left) return std::nullopt;
  HoldingsAround told;
  std::istringstream text(left->text);
  if (!(text >> told.before >> told.after)) return std::nullopt;
  return told;
}

}  // namespace tutti::fault
