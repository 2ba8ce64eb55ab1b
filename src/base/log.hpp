#pragma once

#include <string_view>

#include <tutti/log.hpp>

namespace tutti::base {

using Level = LogLevel;
using tutti::set_log_sink;

/// The least level that reaches the sink from now on.
void set_log_level(Level least);
/// Is a line of this level written? For texts that cost something to make.
[[nodiscard]] bool is_logged(Level level) noexcept;
void log(Level level, std::string_view text) noexcept;
/// At most one line per second for one `key` (a literal): for events that foreign peers can
/// provoke.
void log_limited(Level level, const char* key, std::string_view text) noexcept;

}  // namespace tutti::base
