#include "error_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "base/shown.hpp"

namespace tutti::launcher {
namespace {

constexpr std::size_t kLongest = 4096;
constexpr std::size_t kMostShown = 800;  // the errors of docs/reference/errors.md are shorter
constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kFrame = "  File \"";
constexpr std::string_view kFatal = "Fatal Python error: ";
constexpr std::string_view kTerminate = "terminate called after throwing an instance of '";
constexpr std::string_view kWhat = "  what():  ";

/// "[rank3]: ", which tutti and torch put before each line of a traceback.
std::string_view without_rank(std::string_view line) {
  constexpr std::string_view kRank = "[rank";
  const std::size_t end = line.find("]: ");
  if (!line.starts_with(kRank) || end == std::string_view::npos) return line;
  const std::string_view number = line.substr(kRank.size(), end - kRank.size());
  return std::ranges::all_of(number, [](unsigned char one) { return std::isdigit(one) != 0; })
             ? line.substr(end + 3)
             : line;
}

bool is_library(std::string_view path) {
  constexpr std::array<std::string_view, 4> kLibraries = {"/site-packages/", "/dist-packages/",
                                                          "/lib/python3", "/python/tutti/"};
  return path.starts_with('<') || std::ranges::any_of(kLibraries, [&](std::string_view one) {
           return path.find(one) != std::string_view::npos;
         });
}

std::string short_path(std::string_view path) {
  std::error_code none;
  const std::string here = std::filesystem::current_path(none).string() + "/";
  if (path.starts_with(here)) path.remove_prefix(here.size());
  return std::string(path);
}

}  // namespace

void ErrorText::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    partial_ += piece.substr(0, kLongest - std::min(kLongest, partial_.size()));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    std::string_view line = partial_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    // Text that was written anew behind a carriage return.
    line.remove_prefix(line.rfind('\r') + 1);
    read_line(without_rank(line));
    partial_.clear();
  }
}

void ErrorText::end_with(std::string_view error, bool is_crash) {
  followed_ = false;
  is_crash_ = is_crash;
  error_ = base::shown_words(error, kMostShown);
  if (!frame_.empty()) error_ += " (" + frame_ + ")";
  inside_ = false;
  frame_.clear();
  of_program_ = false;
}

void ErrorText::read_frame(std::string_view line) {
  line.remove_prefix(kFrame.size());
  const std::size_t quote = line.find('"');
  constexpr std::string_view kLine = "\", line ";
  if (quote == std::string_view::npos || !line.substr(quote).starts_with(kLine)) return;
  const std::string_view path = line.substr(0, quote);
  std::string_view number = line.substr(quote + kLine.size());
  const std::size_t digits = std::min(number.size(), number.find_first_not_of("0123456789"));
  // Without a header a syntax error begins so. Other lines like these are of a stack that somebody
  // prints, and no error follows.
  if (!inside_ && !is_fatal_ && digits < number.size()) return;
  number = number.substr(0, digits);
  const bool of_program = !is_library(path);
  // The innermost line of the program itself; of a library only where there is none. In a crash the
  // innermost comes first.
  if (is_fatal_ ? of_program && !of_program_ : of_program || !of_program_) {
    frame_ = base::shown_on_line(short_path(path), kMostShown) + ":" + std::string(number);
    of_program_ = of_program;
    if (is_fatal_ && of_program) error_ += " (" + frame_ + ")";
  }
  if (!is_fatal_) inside_ = true;
}

void ErrorText::read_line(std::string_view line) {
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  if (line.starts_with(kFrame)) return read_frame(line);
  if (line.find(kTraceback) != std::string_view::npos) {
    inside_ = true;
    is_fatal_ = of_program_ = false;
    frame_.clear();
  } else if (line.starts_with(kFatal)) {
    end_with(line.substr(kFatal.size()), true);
    is_fatal_ = true;
  } else if (line.starts_with(kTerminate)) {
    thrown_ = line.substr(kTerminate.size());
    thrown_ = thrown_.substr(0, thrown_.find('\''));
    end_with(thrown_, true);
    inside_ = true;
  } else if (line.starts_with(kWhat) && !thrown_.empty()) {
    end_with(thrown_ + ": " + std::string(line.substr(kWhat.size())), true);
    thrown_.clear();
  } else if (inside_ && line.front() != ' ' && line.front() != '\t') {
    if (thrown_.empty()) end_with(line, false);
    inside_ = false;
    thrown_.clear();
  } else {
    followed_ = true;
  }
  last_line_ = base::shown_words(line, kMostShown);
}

}  // namespace tutti::launcher
