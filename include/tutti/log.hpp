#pragma once

#include <functional>
#include <string_view>

namespace tutti {

/// How much a remark of the library matters.
enum class LogLevel : unsigned char { debug, info, warning, error, off };

/// Where the library's own remarks go; it never prints by itself. Called from any thread, must not
/// throw and must not call back into tutti.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs a sink (an empty one drops everything, as at the start) and the least level it wants to
/// see. init_process_group sets the level again from Config::log_level.
void set_log_sink(LogSink sink, LogLevel least = LogLevel::warning);

}  // namespace tutti
