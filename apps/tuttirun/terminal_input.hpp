#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

#include "os/event_loop.hpp"
#include "os/fd.hpp"

namespace tutti::launcher {

/// Hands what is typed at our terminal on to one worker, through a pipe. The worker cannot read the
/// terminal itself: its process group is never in the foreground, so the kernel would stop it.
/// While we are in the background ourselves nothing is read, and nothing stops.
///
/// SIGTTIN must be blocked. Belongs to the thread of the event loop.
class TerminalInput {
 public:
  using Clock = std::chrono::steady_clock;

  /// `on_input` is called with what was typed, when the terminal has shown it.
  TerminalInput(os::EventLoop& events, std::function<void(std::string_view)> on_input)
      : events_(events), on_input_(std::move(on_input)) {}
  ~TerminalInput() { disconnect(); }
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  /// Begins to read for a new worker and returns its standard input.
  Result<os::Fd> connect();
  /// The worker has ended, or the end of the input was typed.
  void disconnect();

  /// When `look_again` is due, if we wait until we are in the foreground.
  [[nodiscard]] std::optional<Clock::time_point> due() const noexcept { return due_; }
  void look_again();

 private:
  Outcome open_terminal();
  void read_terminal(std::uint32_t events);
  void write_pipe();
  void watch_terminal(bool readable);

  os::EventLoop& events_;
  std::function<void(std::string_view)> on_input_;
  os::Fd terminal_;      // of our own: making it non-blocking must not disturb the shell's
  os::Fd pipe_;          // our end
  std::string waiting_;  // typed, and not yet in the pipe
  std::optional<Clock::time_point> due_;
};

/// True if the terminal `fd` controls us and our process group is in its foreground.
[[nodiscard]] bool in_foreground(int fd) noexcept;

}  // namespace tutti::launcher
