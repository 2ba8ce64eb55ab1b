#pragma once

#include <functional>
#include <string_view>

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// How much a remark of the library matters.
enum class LogLevel : unsigned char { debug, info, warning, error, off };

/// Where the library's own remarks go, each on one line. Called from any thread, must not throw and
/// must not call back into tutti.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs a sink and the least level it wants; with none, as at the start, remarks go to standard
/// error. init_process_group sets the level where TUTTI_LOG_LEVEL or a Config says one. When it
/// returns, the sink before is not called any more: it waits for lines under way, at most for 1 s.
void set_log_sink(LogSink sink, LogLevel least = LogLevel::warning);

}  // namespace v0
}  // namespace tutti
