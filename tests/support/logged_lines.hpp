#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/log.hpp>

namespace tutti::test {

/// The lines that the library logs while it lives.
class LoggedLines {
 public:
  explicit LoggedLines(LogLevel least = LogLevel::warning) {
    set_log_sink(
        [this](LogLevel level, std::string_view text) {
          const std::lock_guard lock(mutex_);
          lines_.emplace_back(text);
          worst_ = std::max(worst_, level);
        },
        least);
  }
  ~LoggedLines() { set_log_sink({}); }
  LoggedLines(const LoggedLines&) = delete;
  LoggedLines& operator=(const LoggedLines&) = delete;
  [[nodiscard]] std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  /// The level of the worst of them.
  [[nodiscard]] LogLevel worst() {
    const std::lock_guard lock(mutex_);
    return worst_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  LogLevel worst_ = LogLevel::debug;
};

}  // namespace tutti::test
