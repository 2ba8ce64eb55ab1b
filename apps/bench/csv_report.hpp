#pragma once

#include <string>

#include "apps/bench/measure.hpp"

namespace tutti::bench {

/// A line of names, then a line per point and library (RFC 4180, lines end with \n). Fields
/// without a figure are empty: the bandwidths of a barrier, the figures of a library that failed.
std::string to_csv(const Results& results);

}  // namespace tutti::bench
