#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/record.hpp"

namespace tutti::record {

/// For each record, in their order: for how long another rank waited for its rank in the
/// collectives that the records hold, in ns. A rank waits for another one from its own call until
/// that of the other, or until its operation ended, if that is earlier. Of several ranks that wait
/// for one, the longest wait counts. So a rank that is late is seen, and not the next one in a
/// chain of ranks that wait for it.
[[nodiscard]] std::vector<std::int64_t> waited_for(std::span<const Record> records);

/// Any rank is late by so much now and then: less is not told.
inline constexpr std::int64_t kShownWait = 50'000'000;

/// "12.3 s".
[[nodiscard]] std::string waited_text(std::int64_t nanoseconds);

}  // namespace tutti::record
