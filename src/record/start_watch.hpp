#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "record/memory.hpp"

namespace tutti::record {

/// The wait of a rank in init, or of a launcher before its job has begun: shows it to `tutti
/// status`, and says when it has lasted so long that it should be logged.
///
/// Threads: one at a time.
class StartWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `after`: Config::stall_warning; none: nothing is ever due. `shown`: Config::flight_recorder.
  StartWatch(std::chrono::nanoseconds after, bool shown) noexcept;
  ~StartWatch() { end(); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  /// From here on `tutti status` shows it, as that of a rank, or of a launcher if there is no rank.
  /// Does nothing if there is no memory for it.
  void show(std::optional<int> rank, int size, const std::string& host) noexcept;
  /// Nothing is noted before `show`.
  void waits_for(std::string_view what) noexcept;
  /// True if it is time for the next line.
  [[nodiscard]] bool is_due() const noexcept { return Clock::now() >= due_; }
  /// Logs the wait, and is due again when it has lasted twice as long. `who`: "init of rank 0 of
  /// 4".
  void log(std::string_view who, std::string_view why);
  /// As `log`, but another rank writes the line.
  void skip() noexcept;
  /// The wait is over, and `tutti status` shows it no more.
  void end() noexcept;

 private:
  const Clock::time_point since_ = Clock::now();
  Clock::time_point due_;
  const bool shown_;
  std::optional<MappedMemory> memory_;
};

}  // namespace tutti::record
