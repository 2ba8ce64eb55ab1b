#include "base/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/forks.hpp"

namespace tutti::base {
namespace {

struct State {
  ForkMutex mutex;
  LogSink sink;
  Level least = Level::warning;
  std::map<std::string, std::pair<std::chrono::steady_clock::time_point, long>, std::less<>> keys;
};

State& state() {
  static State* const kState = new State;  // never destroyed: threads may log during exit
  return *kState;
}

// Where remarks go while the program has set no sink: what matters, in one piece.
void to_standard_error(Level level, std::string_view text) {
  if (level < Level::warning) return;
  std::string line = level == Level::warning ? "tutti: warning: " : "tutti: error: ";
  line.append(text).push_back('\n');
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_log_level(Level least) {
  const std::lock_guard lock(state().mutex);
  state().least = least;
}

void log(Level level, std::string_view text) noexcept {
  try {
    LogSink sink;
    {
      const std::lock_guard lock(state().mutex);
      if (level < state().least || level >= Level::off) return;
      sink = state().sink;
    }
    sink ? sink(level, text) : to_standard_error(level, text);
  } catch (...) {  // a sink that throws has nobody to tell
  }
}

void log_limited(Level level, const char* key, std::string_view text) noexcept {
  try {
    long dropped = 0;
    {
      const std::lock_guard lock(state().mutex);
      auto& [last, count] = state().keys[key];
      const auto now = std::chrono::steady_clock::now();
      if (last.time_since_epoch().count() != 0 && now - last < std::chrono::seconds(1)) {
        ++count;
        return;
      }
      dropped = std::exchange(count, 0);
      last = now;
    }
    std::string line(text);
    if (dropped > 0) line += fmt::format(" (and {} more of this kind)", dropped);
    log(level, line);
  } catch (...) {
  }
}

}  // namespace tutti::base

namespace tutti {

void set_log_sink(LogSink sink, LogLevel least) {
  const std::lock_guard lock(base::state().mutex);
  base::state().sink = std::move(sink);
  base::state().least = least;
}

}  // namespace tutti
