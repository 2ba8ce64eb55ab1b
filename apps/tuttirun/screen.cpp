#include "screen.hpp"

#include <algorithm>

#include "terminal_text.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

// Lines that a program writes in pieces do not flicker; a person does not wait for a prompt.
constexpr auto kUntilShown = 100ms;

}  // namespace

void Screen::resize(std::size_t columns, std::size_t rows) noexcept {
  // Terminals of no size are those of programs, such as expect's.
  columns_ = columns > 0 ? columns : 80;
  most_ = rows > 0 ? std::max<std::size_t>(1, rows / 2) : 12;
}

std::string Screen::fitted(std::string_view line) const {
  std::string text;
  std::size_t width = 0;
  bool coloured = false;
  while (!line.empty()) {
    const std::size_t escape = escape_length(line);
    if (escape > 0) {
      // Colours; anything else would move the cursor.
      if (line.starts_with("\x1b[") && line.substr(0, escape).ends_with('m')) {
        text += line.substr(0, escape);
        coloured = true;
      }
      line.remove_prefix(escape);
      continue;
    }
    const Character one = first_character(line);
    const bool is_tab = line.front() == '\t';
    const auto columns = static_cast<std::size_t>(is_tab ? 1 : one.columns);
    const std::string_view bytes = line.substr(0, one.bytes);
    line.remove_prefix(one.bytes);
    if (columns == 0 && bytes.size() == 1) continue;  // a control character
    // The last column stays free: where the cursor stands behind it, terminals differ.
    if (width + columns >= columns_) break;
    width += columns;
    text += is_tab ? " " : bytes;
  }
  if (coloured) text += "\x1b[0m";
  return text;
}

std::string Screen::erase() {
  if (shown_.empty()) return {};
  std::string bytes = "\r";
  for (std::size_t line = 1; line < shown_.size(); ++line) bytes += "\x1b[A";
  shown_.clear();
  return bytes + "\x1b[J";
}

std::string Screen::draw() {
  std::string bytes;
  for (const auto& [key, line] : shown_) {
    if (!bytes.empty()) bytes += '\n';
    bytes += fitted(line);
  }
  return bytes;
}

std::string Screen::print(std::string_view lines) {
  if (lines.empty()) return {};
  std::map<int, std::string> still;
  for (const auto& [key, line] : shown_) {
    const auto now = unfinished_.find(key);
    if (now != unfinished_.end()) still.insert(*now);
  }
  std::string bytes = erase();
  bytes += lines;
  // Below a line that has no end nothing can stand.
  if (!lines.ends_with('\n')) return bytes;
  shown_ = std::move(still);
  return bytes + draw();
}

void Screen::set(int key, std::string line, Clock::time_point now) {
  const auto found = unfinished_.find(key);
  if (line.empty() ? found == unfinished_.end()
                   : found != unfinished_.end() && found->second == line)
    return;
  if (line.empty())
    unfinished_.erase(found);
  else
    unfinished_.insert_or_assign(key, std::move(line));
  if (!due_) due_ = now + kUntilShown;
}

std::string Screen::refresh() {
  due_.reset();
  std::string bytes = erase();
  // The last one is the reader's: its prompt is always there.
  auto first = unfinished_.begin();
  if (unfinished_.size() > most_)
    std::advance(first, static_cast<std::ptrdiff_t>(unfinished_.size() - most_));
  shown_.insert(first, unfinished_.end());
  return bytes + draw();
}

void Screen::leave() {
  shown_.clear();
  if (!unfinished_.empty() && !due_) due_ = Clock::now() + kUntilShown;
}

}  // namespace tutti::launcher
