#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "record/memory.hpp"

namespace tutti::record {

/// The wait of a rank in init, or of a launcher before its job has begun. `tutti status` sees it,
/// and a long one is logged as the wait of an operation is.
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

  /// From here on `tutti status` sees it: a rank, or, without one, a launcher. Not where there is
  /// no memory for it.
  void show(std::optional<int> rank, int size, const std::string& host) noexcept;
  /// Of one that is shown.
  void waits_for(std::string_view what) noexcept;
  /// True if it has waited for long, and should be told what for.
  [[nodiscard]] bool is_due() const noexcept { return Clock::now() >= due_; }
  /// Logs it, and is due again when it has waited twice as long. `who`: "init of rank 0 of 4".
  void log(std::string_view who, std::string_view why);
  /// Another rank logs it.
  void skip() noexcept;
  /// Nobody waits any more.
  void end() noexcept;

 private:
  const Clock::time_point since_ = Clock::now();
  Clock::time_point due_;
  const bool shown_;
  std::optional<OwnMemory> memory_;
};

}  // namespace tutti::record
