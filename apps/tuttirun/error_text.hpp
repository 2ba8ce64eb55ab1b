#pragma once

#include <string>
#include <string_view>

namespace tutti::launcher {

/// Finds in what a worker writes to stderr why it ends: the last exception of Python with the line
/// of the program, that of a C++ program that nobody has caught, or else its last line.
class ErrorText {
 public:
  void add(std::string_view bytes);

  /// "ValueError: my bug (train.py:42)"; empty: it has written of no exception.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  [[nodiscard]] const std::string& last_line() const noexcept { return last_line_; }
  /// True if it ends the process by a signal: a crash, or an exception that leaves a C++ program.
  [[nodiscard]] bool is_crash() const noexcept { return is_crash_; }
  /// True if other lines have followed it: the worker has gone on, or has told more of it.
  [[nodiscard]] bool followed() const noexcept { return followed_; }
  /// True inside a traceback: its last line, with the error, is still to come.
  [[nodiscard]] bool unfinished() const noexcept { return inside_; }

 private:
  void read_line(std::string_view line);
  void read_frame(std::string_view line);
  void end_with(std::string_view error, bool is_crash);

  std::string partial_;
  std::string last_line_;
  std::string error_;
  std::string frame_;      // "train.py:42"
  std::string thrown_;     // the type of a C++ exception
  bool inside_ = false;    // a traceback, or before what()
  bool is_crash_ = false;  // of error_
  bool followed_ = false;
  bool is_fatal_ = false;    // frames of a crash follow their error
  bool of_program_ = false;  // frame_ is no library's
};

}  // namespace tutti::launcher
