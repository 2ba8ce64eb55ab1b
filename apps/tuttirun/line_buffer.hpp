#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tutti::launcher {

/// Cuts one worker's stream into lines, so that lines of several workers are never mixed. A line
/// ends with a line feed, or with a carriage return, behind which programs write it anew.
class LineBuffer {
 public:
  enum class Form : std::uint8_t {
    as_it_comes,  ///< there is nobody else: nothing waits for the end of its line
    lines,        ///< all that was written, line by line
    screen,       ///< what stands on a terminal in the end: what was written anew is left out
  };

  LineBuffer() = default;
  /// Each line is put behind `tag`. A line that begins with `own_tag` has said the same itself.
  LineBuffer(Form form, std::string tag, std::string own_tag)
      : form_(form), tag_(std::move(tag)), own_tag_(std::move(own_tag)) {}

  /// Takes what was read and returns what is ready. A line longer than kLongestLine is handed on in
  /// pieces.
  std::string add(std::string_view bytes);
  /// The rest at the end of the stream; `close_line` adds the missing end of the last line.
  std::string finish(bool close_line);

  /// The line that has not ended yet, behind its tag; empty where there is none.
  [[nodiscard]] std::string unfinished() const;
  /// Forgets that one: it is on the screen already.
  void forget_unfinished() noexcept { partial_.clear(); }

  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

 private:
  void end_line(std::string& to);
  void put(std::string& to, std::string_view text);
  [[nodiscard]] std::string_view untagged(std::string_view text) const;
  /// Counts the rows that partial_ moves up, and leaves what stands behind.
  void move_up();
  void put_rewritten(std::string& to);

  Form form_ = Form::as_it_comes;
  std::string tag_;
  std::string own_tag_;
  std::string partial_;
  bool inside_line_ = false;  // a piece of the current line is out already
  bool open_ = false;         // what is out does not end with a line feed
  std::size_t moved_up_ = 0;  // lines
  // Lines of a screen that were written anew, by how far above the lowest they stand.
  std::map<std::size_t, std::string> rewritten_;
};

}  // namespace tutti::launcher
