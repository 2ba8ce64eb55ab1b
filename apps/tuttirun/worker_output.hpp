#pragma once

#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"
#include "os/event_loop.hpp"
#include "output.hpp"
#include "screen.hpp"
#include "workers.hpp"

namespace tutti::launcher {

/// Shows what the workers of this node write, and our own lines among it: with tags, on a screen,
/// or as it comes.
class WorkerOutput {
 public:
  using Clock = std::chrono::steady_clock;

  WorkerOutput(const Options& options, Start& start, const Workers& workers, os::EventLoop& events);

  /// Tells the workers of the next start how they are shown.
  void describe();
  void watch(Worker& worker);
  /// All that is there now, and no more after the deadline.
  void read_rest(Worker& worker, Clock::time_point deadline);
  /// The same of all workers, which have ended: nothing of them is left after it.
  void drain(Clock::time_point deadline);
  void pause_or_resume();
  /// Our own line.
  void say(const std::string& line) { print(STDERR_FILENO, line + "\n"); }
  /// Says it if it is an error.
  void say(const Outcome& status);
  /// Whole lines, of workers or ours, to `fd`.
  void print(int fd, std::string lines);
  void print_due();
  /// When print_due has something to do.
  [[nodiscard]] DueTime due() const;
  /// Somebody has typed this; the terminal has shown it behind the reader's prompt.
  void note_typed(std::string_view typed);
  /// Another program has had the terminal.
  void leave_screen();
  /// See Output.
  [[nodiscard]] int error(int fd) const noexcept { return output_.error(fd); }
  void flush(Clock::time_point deadline) { output_.flush(deadline); }

 private:
  void read_stream(Worker& worker, Stream& stream);
  void take(Worker& worker, Stream& stream, std::string_view bytes);
  void show(Worker& worker, Stream& stream, std::string lines);
  void close_stream(Worker& worker, Stream& stream);
  void print_pieces(std::vector<Burst::Piece> pieces);
  [[nodiscard]] int screen_key(const Worker& worker, const Stream& stream) const;

  const Options& options_;
  Start& start_;
  const Workers& workers_;
  os::EventLoop& events_;
  Output output_;
  std::optional<Screen> screen_;     ///< where several workers write to a terminal
  std::array<bool, 3> on_screen_{};  ///< by number of the stream
};

}  // namespace tutti::launcher
