#include "apps/tutti/progress_bar.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/format.hpp"

namespace tutti::cli {

namespace {

/// Erases from the cursor to the end of the line (ECMA-48).
constexpr const char* kErase = "\r\x1b[K";

int terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string duration_text(double seconds) {
  if (seconds < 60) return base::format("{:.0f} s", seconds);
  return base::format("{:.0f} min", seconds / 60);
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(::isatty(STDERR_FILENO) == 1), begun_(Clock::now()) {}

void ProgressBar::show(int done, int all, const std::string& what) {
  if (!terminal_) return;
  const auto now = Clock::now();
  if (drawn_ && done < all && now - *drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  shown_ = true;
  const double elapsed = std::chrono::duration<double>(now - begun_).count();
  // The last column stays free: some terminals would begin a new line.
  const std::string line = progress_line(done, all, what, elapsed, terminal_columns() - 1);
  std::fprintf(stderr, "%s%s", kErase, line.c_str());
}

void ProgressBar::clear() {
  if (!shown_) return;
  shown_ = false;
  drawn_.reset();
  std::fputs(kErase, stderr);
}

std::string progress_line(int done, int all, const std::string& what, double elapsed_s,
                          int columns) {
  constexpr int kBar = 24;
  const double part = static_cast<double>(done) / std::max(all, 1);
  const int filled = static_cast<int>(part * kBar);
  std::string bar(static_cast<std::size_t>(filled), '=');
  if (filled < kBar) bar += '>';
  bar.resize(kBar, ' ');
  std::string line = base::format("[{}] {:>3.0f} %, ", bar, part * 100);
  if (done > 0 && done < all) {
    line += base::format("about {} left, ", duration_text(elapsed_s * (1 - part) / part));
  }
  line += what;
  return line.substr(0, static_cast<std::size_t>(std::max(columns, 0)));
}

}  // namespace tutti::cli
