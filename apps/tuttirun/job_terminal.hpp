#pragma once

#include <optional>

#include "terminal_input.hpp"
#include "worker_output.hpp"
#include "worker_signals.hpp"

namespace tutti::launcher {

/// The terminal that the job was started from: which process has it, which rank reads what is
/// typed there, and the stops that come from it.
class JobTerminal {
 public:
  JobTerminal(const Options& options, Start& start, const Workers& workers, os::EventLoop& events,
              WorkerOutput& output, WorkerSignals& signals);

  /// Tells the workers of the next start which of them has it, or reads it.
  void describe();
  /// Stops the job until somebody continues it, as the shell's `fg` and `bg` do.
  void suspend();
  /// Workers may have been stopped, by the terminal or by somebody else.
  void note_stops();
  /// We have again what the only worker had: true.
  bool take_back() const;
  /// See TerminalInput.
  [[nodiscard]] DueTime due() const { return typed_ ? typed_->due() : std::nullopt; }
  void look_again() {
    if (typed_) typed_->look_again();
  }

 private:
  /// The terminal has stopped a worker that used it from the background.
  void note_use(Worker& worker);
  /// The only worker gets the terminal, if we have it: true.
  bool give() const;

  const Options& options_;
  Start& start_;
  const Workers& workers_;
  WorkerOutput& output_;
  WorkerSignals& signals_;
  std::optional<TerminalInput> typed_;  ///< nothing: nobody reads the terminal through us
};

/// Sends the signal to our process group, as the terminal would have done, but not to us.
void pass_on_from_terminal(int signal);

}  // namespace tutti::launcher
