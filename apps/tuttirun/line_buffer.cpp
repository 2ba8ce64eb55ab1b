#include "line_buffer.hpp"

#include <algorithm>

#include "terminal_text.hpp"

namespace tutti::launcher {
namespace {

constexpr std::string_view kCursorUp = "\x1b[A";
// Nothing moves above the top of a terminal.
constexpr std::size_t kMostRows = 100;

}  // namespace

std::string_view LineBuffer::untagged(std::string_view text) const {
  if (!tag_.empty() && !own_tag_.empty() && text.starts_with(own_tag_))
    text.remove_prefix(own_tag_.size());
  return text;
}

void LineBuffer::put(std::string& to, std::string_view text) {
  const bool ends = text.ends_with('\n') || text.ends_with('\r');
  if (!inside_line_ && text.find_first_not_of('\r') != std::string_view::npos) {
    to += tag_;
    text = untagged(text);
  }
  to += text;
  inside_line_ = !ends;
  open_ = !to.ends_with('\n');
}

void LineBuffer::move_up() {
  std::size_t behind = 0;
  for (std::size_t at = 0; (at = partial_.find(kCursorUp, at)) != std::string::npos; at = behind) {
    behind = at + kCursorUp.size();
    moved_up_ = std::min(moved_up_ + 1, kMostRows);
  }
  partial_.erase(0, behind);
}

void LineBuffer::put_rewritten(std::string& to) {
  for (auto row = rewritten_.rbegin(); row != rewritten_.rend(); ++row) put(to, row->second);
  rewritten_.clear();
}

void LineBuffer::end_line(std::string& to) {
  if (form_ == Form::screen && (partial_.ends_with('\n') || partial_.ends_with('\r'))) {
    move_up();
    if (partial_.ends_with('\r')) {
      partial_.clear();
    } else if (moved_up_ > 0) {
      // The row above is out for good. Its later text is told when no more is written there.
      if (has_visible_text(partial_)) rewritten_[moved_up_] = partial_;
      --moved_up_;
      partial_.clear();
    }
    if (partial_.empty()) return;
    put_rewritten(to);
  }
  put(to, partial_);
  partial_.clear();
}

std::string LineBuffer::add(std::string_view bytes) {
  std::string ready;
  if (form_ == Form::as_it_comes) {
    if (!bytes.empty()) put(ready, bytes);
    return ready;
  }
  // Carriage returns end the line only if no line feed follows.
  if (!bytes.empty() && partial_.ends_with('\r') && bytes.front() != '\n' && bytes.front() != '\r')
    end_line(ready);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    std::size_t size = end == std::string_view::npos ? bytes.size() : end + 1;
    bool whole = end != std::string_view::npos;
    if (whole && bytes[end] == '\r') {
      size = std::min(bytes.size(), bytes.find_first_not_of('\r', end));
      if (size == bytes.size()) {
        whole = false;
      } else if (bytes[size] == '\n') {
        ++size;
      }
    }
    partial_ += bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (whole || partial_.size() > kLongestLine) end_line(ready);
  }
  return ready;
}

std::string LineBuffer::finish(bool close_line) {
  std::string ready;
  // Nothing writes it anew any more.
  if (form_ == Form::screen) {
    while (partial_.ends_with('\r')) partial_.pop_back();
    for (std::size_t at = 0; (at = partial_.find(kCursorUp, at)) != std::string::npos;)
      partial_.erase(at, kCursorUp.size());
    put_rewritten(ready);
  }
  if (!partial_.empty()) put(ready, partial_);
  partial_.clear();
  if (open_ && close_line) ready += '\n';
  inside_line_ = open_ = false;
  return ready;
}

std::string LineBuffer::unfinished() const {
  std::string_view text = partial_;
  if (text.find_first_not_of('\r') == std::string_view::npos && !rewritten_.empty())
    text = rewritten_.begin()->second;
  while (text.ends_with('\r') || text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty()) return {};
  std::string shown = inside_line_ ? "" : tag_;
  shown += inside_line_ ? text : untagged(text);
  return shown;
}

}  // namespace tutti::launcher
