#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::launcher {

/// The terminal that several workers write to. Whole lines go up for good; below them stand the
/// lines that are not finished yet, one for each stream, and move in place: progress bars and
/// prompts. Makes the bytes for the terminal; the caller writes them.
class Screen {
 public:
  using Clock = std::chrono::steady_clock;

  /// The size of the terminal, which may change. No more than a part of its height is used.
  void resize(std::size_t columns, std::size_t rows) noexcept;

  /// The bytes that print whole lines.
  std::string print(std::string_view lines);
  /// An unfinished line; empty: none. Lines stand in the order of `key`, the greatest last, where
  /// the cursor is. Shown some time later, with `refresh`.
  void set(int key, std::string line, Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept { return due_; }
  /// The bytes that show the unfinished lines as they are now.
  std::string refresh();

  /// The cursor has gone to a new line below, since somebody typed one or another program printed.
  /// What stands stays.
  void leave();
  /// True if the line of `key` stands on the screen.
  [[nodiscard]] bool shows(int key) const { return shown_.contains(key); }

 private:
  std::string erase();
  std::string draw();
  [[nodiscard]] std::string fitted(std::string_view line) const;

  std::size_t columns_ = 80;
  std::size_t most_ = 12;  // lines
  std::map<int, std::string> unfinished_;
  std::map<int, std::string> shown_;
  std::optional<Clock::time_point> due_;
};

}  // namespace tutti::launcher
