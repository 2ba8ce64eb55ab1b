#pragma once

#include <span>
#include <string>

#include "record/record.hpp"

namespace tutti::record {

/// Records of the ranks of a job as one trace in Chrome's JSON form, for Perfetto: a process per
/// rank, a row per group, a slice per operation. Times are those of the ranks' hosts. Fields that
/// torch's flight recorder has carry its names.
[[nodiscard]] std::string trace_json(std::span<const Record> records);

}  // namespace tutti::record
