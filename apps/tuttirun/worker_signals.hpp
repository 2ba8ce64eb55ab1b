#pragma once

#include <chrono>

#include "options.hpp"
#include "records.hpp"
#include "worker_output.hpp"

namespace tutti::launcher {

/// Sends signals to the workers of this node, and kills those that do not end in time after one.
class WorkerSignals {
 public:
  using Clock = std::chrono::steady_clock;

  WorkerSignals(const Options& options, const Workers& workers, const Records& records,
                WorkerOutput& output)
      : options_(options), workers_(workers), records_(records), output_(output) {}

  /// To each process that has joined as a rank, and to a worker below which none has.
  void send_to_ranks(int signal);
  void send_to_groups(int signal);
  /// Asks all processes of all workers to end.
  void stop(int signal);
  /// After a signal from outside: asks the ranks to end. Their helpers, with which they may write a
  /// checkpoint, are asked later.
  void stop_ranks(int signal);
  void kill_all();
  /// The workers were asked to end, or killed.
  [[nodiscard]] bool stopping() const noexcept { return asked_by_ != 0 || killed_; }
  [[nodiscard]] bool killed() const noexcept { return killed_; }
  /// Asks or kills those that are late.
  void act();
  /// When `act` has something to do.
  [[nodiscard]] DueTime due() const { return earlier(ask_all_at_, kill_at_); }
  /// The workers are those of another start.
  void begin_again();

 private:
  /// Writes which workers have not ended in the time that they were given.
  void tell_late();

  const Options& options_;
  const Workers& workers_;
  const Records& records_;
  WorkerOutput& output_;
  int asked_by_ = 0;    ///< the first signal that has asked the workers to end
  DueTime ask_all_at_;  ///< by that signal
  DueTime kill_at_;
  std::chrono::milliseconds patience_{0};  ///< from the signal that asked them to `kill_at_`
  bool killed_ = false;
};

}  // namespace tutti::launcher
