#include "base/log.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "base/format.hpp"
#include "base/shown.hpp"

namespace tutti::base {
namespace {

/// Tells when the last line of a sink is over.
struct Lines {
  ~Lines() { over.set_value(); }
  std::promise<void> over;
  const std::uint64_t generation = fork_generation();  ///< a parent's lines never end in its child
};

/// A sink of the program. Each line under way has a copy, whose part in `lines` goes last.
struct Sink {
  std::shared_ptr<Lines> lines;
  std::shared_ptr<const LogSink> call;
};

struct State {
  ForkMutex mutex;
  Sink sink;
  Level least = Level::warning;
  std::map<std::string, std::pair<std::chrono::steady_clock::time_point, long>, std::less<>> keys;
};

State& state() {
  static State* const kState = new State;  // never destroyed: threads may log during exit
  return *kState;
}

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error"};

// Where remarks go while the program has set no sink: in one piece.
void to_standard_error(Level level, std::string_view text) {
  std::string line = base::format("tutti: {}: {}\n", kLevelNames[static_cast<int>(level)], text);
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_log_level(Level least) {
  const std::lock_guard lock(state().mutex);
  state().least = least;
}

bool is_logged(Level level) noexcept {
  const std::lock_guard lock(state().mutex);
  return level >= state().least && level < Level::off;
}

void log(Level level, std::string_view text) noexcept {
  try {
    Sink sink;
    {
      const std::lock_guard lock(state().mutex);
      if (level < state().least || level >= Level::off) return;
      sink = state().sink;
    }
    // Others may have written parts of it.
    const std::string line = shown_on_line(text);
    sink.call != nullptr ? (*sink.call)(level, line) : to_standard_error(level, line);
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
    if (dropped > 0) line += base::format(" (and {} more of this kind)", dropped);
    log(level, line);
  } catch (...) {
  }
}

}  // namespace tutti::base

namespace tutti {
inline namespace v0 {
namespace {

constexpr std::chrono::seconds kLinesEnd{1};

}  // namespace

void set_log_sink(LogSink sink, LogLevel least) {
  base::Sink other;  // the new one, and then the one before
  if (sink) {
    other = {std::make_shared<base::Lines>(), std::make_shared<const LogSink>(std::move(sink))};
  }
  {
    const std::lock_guard lock(base::state().mutex);
    std::swap(base::state().sink, other);
    base::state().least = least;
  }
  if (other.lines == nullptr || other.lines->generation != base::fork_generation()) return;
  const std::future<void> over = other.lines->over.get_future();
  other.lines.reset();
  (void)over.wait_for(kLinesEnd);
}

}  // namespace v0
}  // namespace tutti
