#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace tutti::cli {

/// A line on standard error that tells how far a long command is. Shown only on a terminal.
class ProgressBar {
 public:
  ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { clear(); }

  /// `what`: what is being done now. Draws at most ten times a second, and the first and the last.
  void show(int done, int all, const std::string& what);
  /// Takes the line away: before anything else is printed, and at the end.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  bool shown_ = false;
  Clock::time_point begun_;
  std::optional<Clock::time_point> drawn_;
};

/// "[=====>              ]  25 %, about 12 s left, all_reduce 4K", of at most `columns` characters.
/// The time is left out while nothing is done yet.
std::string progress_line(int done, int all, const std::string& what, double elapsed_s,
                          int columns);

}  // namespace tutti::cli
