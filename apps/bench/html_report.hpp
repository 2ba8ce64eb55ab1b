#pragma once

#include <string>

#include "apps/bench/measure.hpp"

namespace tutti::bench {

/// One page that needs no other file and no script: for each operation and number of ranks the
/// latency and the bandwidth of all libraries over the size, and a table with every row.
std::string to_html(const Settings& settings, const Results& results);

}  // namespace tutti::bench
