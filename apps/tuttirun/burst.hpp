#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::launcher {

/// Lines that a worker has written one right after the other. They wait until it pauses, so that
/// those of other workers do not come between: Python writes a traceback in many pieces.
class Burst {
 public:
  using Clock = std::chrono::steady_clock;
  struct Piece {
    int to;  ///< 1 or 2
    std::string text;
  };

  void add(int to, std::string text, Clock::time_point now) {
    if (text.empty()) return;
    if (pieces_.empty()) first_ = now;
    last_ = now;
    bytes_ += text.size();
    if (!pieces_.empty() && pieces_.back().to == to)
      pieces_.back().text += text;
    else
      pieces_.push_back({to, std::move(text)});
  }

  /// When it is over, unless more comes; nothing: it is empty. `is_error`: the end of a traceback
  /// is still to come.
  [[nodiscard]] std::optional<Clock::time_point> over(bool is_error) const {
    if (pieces_.empty()) return std::nullopt;
    if (bytes_ > kMost) return first_;
    const auto pause = std::min(last_ + kPause, first_ + kLongest);
    if (!is_error || std::ranges::count(pieces_, STDOUT_FILENO, &Piece::to) > 0) return pause;
    return error_over();
  }

  /// The part that is over. While an error goes on, and is not too long, that is stdout only.
  std::vector<Piece> take(bool is_error, Clock::time_point now) {
    if (!is_error || bytes_ > kMost || error_over() <= now) return take();
    std::vector<Piece> taken;
    std::vector<Piece> left;
    for (Piece& piece : pieces_)
      (piece.to == STDOUT_FILENO ? taken : left).push_back(std::move(piece));
    pieces_ = std::move(left);
    for (const Piece& piece : taken) bytes_ -= piece.text.size();
    return taken;
  }
  /// All.
  std::vector<Piece> take() {
    bytes_ = 0;
    return std::exchange(pieces_, {});
  }

 private:
  [[nodiscard]] Clock::time_point error_over() const {
    return std::min(last_ + kErrorPause, first_ + kLongestError);
  }

  static constexpr std::chrono::milliseconds kPause{20};
  // A process that is not run may pause.
  static constexpr std::chrono::milliseconds kErrorPause{2000};
  static constexpr std::chrono::milliseconds kLongestError{5000};
  static constexpr std::chrono::milliseconds kLongest{200};
  static constexpr std::size_t kMost = std::size_t{256} << 10;

  std::vector<Piece> pieces_;
  std::size_t bytes_ = 0;
  Clock::time_point first_;
  Clock::time_point last_;
};

}  // namespace tutti::launcher
